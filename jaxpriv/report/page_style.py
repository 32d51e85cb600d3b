"""How a certificate's page looks: light and dark, wide and narrow, and on paper.

Colour-blind people tell the colours apart (tests/test_page.py sees them as they do); none says
anything alone.
"""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2430; --faint: #556070; \
--line: #d5dbe3; --sure: #0072b2; --sure-back: #eaf4fa; --weak: #b34700; --third: #882255; \
--alarm: #b3261e; --alarm-back: #fdecea; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #12161c; --ink: #e7ebf0; \
--faint: #a3adba; --line: #38414d; --sure: #6cc0f0; --sure-back: #14293a; --weak: #f0a24a; \
--third: #f0e442; --alarm: #ff8a80; --alarm-back: #3a1a19; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); \
max-width: 58rem; margin: 0 auto; padding: 1.6rem 1.25rem 2.5rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; } \
h2 { font-size: 1.1rem; margin: 1.5rem 0 .4rem; } p { margin: .5rem 0; }
.small, .of { color: var(--faint); font-size: .875rem; } .of { margin: .25rem 0 1.1rem; }
.plain { border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1.2rem; }
.plain > p:first-child { font-size: 1.25rem; line-height: 1.4; margin: 0 0 .8rem; }
.warning { background: var(--alarm-back); border-left: 5px solid var(--alarm); \
padding: .6rem 1rem; margin: .8rem 0; } .warning b { color: var(--alarm); }
figure { margin: 0; } svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .875rem; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; \
margin-top: .5rem; }
figcaption b { flex-basis: 100%; } figcaption span { display: inline-flex; align-items: center; \
gap: .4rem; } figcaption svg { width: .8rem; flex: none; } figcaption svg.key { width: 2rem; }
.people > svg { max-width: 36rem; } .people g { stroke-width: 1; }
.wrong { fill: none; stroke: var(--faint); } .right { fill: var(--weak); stroke: var(--weak); } \
.guess { fill: var(--ink); stroke: var(--ink); }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; \
font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; } thead th { font-size: .875rem; \
vertical-align: bottom; line-height: 1.25; }
th:first-child, td:first-child { text-align: left; }
td, th span { white-space: nowrap; }
tr.class th { font-size: .8rem; text-align: left; padding-top: .5rem; letter-spacing: .02em; }
tbody.guarantee { background: var(--sure-back); border-left: 5px solid var(--sure); } \
tbody.guarantee td { font-weight: 650; } tbody.guarantee .class th { color: var(--sure); }
tbody.weaker { border-left: 5px dotted var(--weak); border-bottom: 1px solid var(--line); } \
tbody.weaker td { font-style: italic; } tbody.weaker .class th { color: var(--weak); }
thead { border-left: 5px solid transparent; }
ul { padding-left: 1.2rem; margin: .3rem 0; } li { margin: .15rem 0; }
dl { margin: .3rem 0; } dt { font-weight: 600; margin-top: .4rem; } dd { margin: 0; }
details { border-top: 1px solid var(--line); padding: .55rem 0; } \
details:last-of-type { border-bottom: 1px solid var(--line); } ul + details { margin-top: 1.2rem; }
summary { cursor: pointer; font-weight: 600; }
summary:focus-visible { outline: 2px solid var(--sure); outline-offset: 2px; }
pre { white-space: pre-wrap; font-size: .8rem; border: 1px solid var(--line); \
border-radius: .4rem; padding: .7rem; user-select: all; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); \
gap: 1.2rem; margin: .8rem 0; }
.chart text { font: 11px system-ui, sans-serif; fill: var(--faint); } \
.chart text.title { font-weight: 600; font-size: 13px; fill: var(--ink); }
.grid { stroke: var(--line); stroke-width: .7; } .mark { stroke: var(--faint); \
stroke-dasharray: 1.5 3; fill: none; stroke-width: 1.2; }
.curve { fill: none; stroke-width: 2.2; } .curve.c0 { stroke: var(--sure); } \
.curve.c1 { stroke: var(--weak); stroke-dasharray: 7 4; } \
.curve.c2 { stroke: var(--third); stroke-dasharray: 9 3 2 3; }
.near, .dot { fill: transparent; } .point:hover .dot { fill: var(--ink); }
@media (max-width: 40rem) { body { padding: 1rem .8rem 2rem; } \
.plain { padding: .8rem; } .plain > p:first-child { font-size: 1.1rem; }
thead { display: none; } table, tbody, tr, td, th { display: block; width: 100%; } \
tbody { padding: .3rem 0; margin-bottom: .6rem; } tbody.weaker { border-bottom: 0; } \
tbody tr.class + tr ~ tr { margin-top: .5rem; }
td { display: flex; justify-content: space-between; gap: 1rem; padding: .1rem .7rem; } \
td::before { content: attr(data-name); color: var(--faint); font-weight: 400; \
font-style: normal; } td:first-child { font-size: 1.05rem; } \
td:first-child::before { content: none; } }
@page { size: A4; margin: 10mm 13mm; }
@media print { body { font-size: 9.6pt; line-height: 1.3; padding: 0; max-width: none; } \
h1 { font-size: 17pt; } h2 { font-size: 11pt; margin-top: .7rem; } .of { margin-bottom: .6rem; } \
.small, .of, figcaption { font-size: 8.4pt; } ul { font-size: 8.8pt; line-height: 1.26; } \
p { margin: .3rem 0; } \
.plain > p:first-child { font-size: 13pt; } .plain { padding: .5rem .9rem; } \
.people > svg { max-width: 22rem; } \
th, td { padding: .15rem .45rem; font-size: 9.6pt; } thead th { font-size: 8.6pt; } \
details:not([open]) { display: none; } summary { list-style: none; } \
.plain, tbody, .chart, li { break-inside: avoid; } \
* { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""
