/* SPDX-License-Identifier: MIT */
/*
 * html.h - one HTML page that needs nothing beside itself.
 *
 * I1 A text cannot leave its place: & < > " ' are escaped, bytes that are not UTF-8 and control
 *    characters become U+FFFD (a line break and a tab stay).
 * I2 The page has no script and asks nothing of the network; a policy in it tells the browser so.
 *
 *   sm__html_begin(out, "two runs");
 *   fputs("<p>", out);
 *   sm__html_text(out, name);
 *   fputs("</p>", out);
 *   if (sm__html_end(out)) ...       the stream had an error
 */
#ifndef SM_REPORT_HTML_H
#define SM_REPORT_HTML_H

#include <stdio.h>

/* The head of the page with its style, and the beginning of its body. title: escaped. */
void sm__html_begin(FILE *out, const char *title);
/* Ends the page and flushes. Return: 0, or -EIO when the stream has an error. */
int sm__html_end(FILE *out);

/* Text between tags, or in a quoted attribute (I1). */
void sm__html_text(FILE *out, const char *text);
/* <TAG>text</TAG>; the tag is ours, the text anybody's. */
void sm__html_element(FILE *out, const char *tag, const char *text);

#endif
