/* SPDX-License-Identifier: MIT */
/* html.c - the page of html.h. */
#include "report/html.h"
#include "report/text.h"

#include <errno.h>

/*
 * Colours are classes, so that they follow the reader's light or dark mode: c0 to c9 are a series' or
 * a kind's, the tenth is for "others". Chosen to differ in lightness too.
 */
static const char style[] =
	":root{color-scheme:light dark;--ink:#1c1e21;--faint:#6b7280;--line:#d4d7dc;--paper:#fff;"
	"--c0:#1f6fb4;--c1:#d9730d;--c2:#2f8f4e;--c3:#b3344a;--c4:#7a52b3;--c5:#8a5a3c;--c6:#"
	"c0519b;"
	"--c7:#8c8f1c;--c8:#1796a8;--c9:#9aa0a8}"
	"@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--faint:#9aa0a8;--line:#3a3f47;"
	"--paper:#15181c;--c0:#5aa9e6;--c1:#f0a04b;--c2:#63c384;--c3:#ef7d90;--c4:#b398e6;"
	"--c5:#c99b7c;--c6:#e58bc6;--c7:#cdd05a;--c8:#57c7d6;--c9:#767c85}}"
	"body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
	"max-width:76rem;margin:2rem auto;padding:0 1rem}"
	"h1{font-size:1.5rem}h2{font-size:1.2rem;margin:2.5rem 0 .5rem;border-top:1px solid "
	"var(--line);"
	"padding-top:1rem}h3{font-size:1rem;margin:1.6rem 0 .4rem}"
	".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.87rem}"
	"th,td{padding:.15rem .7rem .15rem 0;text-align:left;white-space:nowrap;"
	"border-bottom:1px solid "
	"var(--line)}th.r,td.r{text-align:right;font-variant-numeric:tabular-nums}"
	"th{color:var(--faint);font-weight:600}.faint{color:var(--faint)}"
	"pre{font-size:.8rem;overflow-x:auto}summary{cursor:pointer}"
	".key{display:inline-block;width:.8em;height:.8em;margin:0 .35em 0 .9em}"
	"svg{max-width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;"
	"fill:var(--ink)}svg .axis{stroke:var(--line);stroke-width:1}svg .faint{fill:var(--faint)}"
	".c0{fill:var(--c0);background:var(--c0)}.c1{fill:var(--c1);background:var(--c1)}"
	".c2{fill:var(--c2);background:var(--c2)}.c3{fill:var(--c3);background:var(--c3)}"
	".c4{fill:var(--c4);background:var(--c4)}.c5{fill:var(--c5);background:var(--c5)}"
	".c6{fill:var(--c6);background:var(--c6)}.c7{fill:var(--c7);background:var(--c7)}"
	".c8{fill:var(--c8);background:var(--c8)}.c9{fill:var(--c9);background:var(--c9)}"
	"polyline{fill:none;stroke:var(--c0);stroke-width:1.5}";

void sm__html_begin(FILE *out, const char *title)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" "
	      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n",
	      out);
	sm__html_element(out, "title", title);
	fprintf(out, "<style>%s</style>\n</head>\n<body>\n", style);
	sm__html_element(out, "h1", title);
}

int sm__html_end(FILE *out)
{
	fputs("</body>\n</html>\n", out);
	return fflush(out) || ferror(out) ? -EIO : 0;
}

static const char *entity(uint32_t c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

void sm__html_text(FILE *out, const char *text)
{
	while (*text) {
		uint32_t c = sm__utf8_next(&text);
		const char *escaped = entity(c);
		char buf[4];

		if (escaped) {
			fputs(escaped, out);
			continue;
		}
		if (sm__is_control(c) && c != '\n' && c != '\t')
			c = SM__UTF8_REPLACEMENT;
		fwrite(buf, 1, sm__utf8_put(c, buf), out);
	}
}

void sm__html_element(FILE *out, const char *tag, const char *text)
{
	fprintf(out, "<%s>", tag);
	sm__html_text(out, text);
	fprintf(out, "</%s>\n", tag);
}
