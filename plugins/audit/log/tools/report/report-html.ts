// A report as one plain HTML page without scripts. The signed JSON stands in it; the page itself is not signed.

import type { AuditReport } from './audit-report.js'

const STYLE =
  'body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}' +
  'table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2em .6em;text-align:left}' +
  'pre{white-space:pre-wrap;word-break:break-all;background:#eee;padding:1em}'

const VERDICTS = {
  intact: 'The log is intact.',
  not_intact: 'The log is NOT INTACT.',
  cannot_be_judged: 'The log cannot be judged.',
} as const

/** @param signed the text of `signReport`. */
export function reportPage(report: AuditReport, signed: string): string {
  const { from, to, log, verification } = report
  const { verdict, reason, records, verified, sealed, unsealed, checkpoints, head } = verification
  const { selfVouched, compared, cosigned, clockSetBacks } = verification
  const sections = [
    `<h1>Audit log, ${escapeHtml(from)} to ${escapeHtml(to)}</h1>`,
    `<p><strong>${VERDICTS[verdict]}</strong> ${escapeHtml(reason ?? '')}</p>`,
    list([
      ['generated', report.generated_at],
      ['log', log?.origin ?? 'no journal'],
      ['log id', log?.log_id ?? ''],
      ['began', log?.began_at ?? ''],
      ['retention', log === null ? '' : `${log.retention_days} days`],
      ['forked from', log?.parent === null || log === null ? '' : log.parent.origin],
      ['keys from', selfVouched ? 'the log itself: it vouches for itself' : 'outside of the log'],
      ['head kept elsewhere', compared ? 'compared' : 'not compared'],
      [
        'cosigned by a quorum',
        cosigned === undefined ? 'not confirmed' : `${cosigned.size} leaves at ${cosigned.time}`,
      ],
      ['newest head', head === undefined ? 'none' : `${head.size} leaves, root ${head.root}`],
    ]),
    '<h2>Verification of the whole log</h2>',
    list([
      ['records', records],
      ['with a valid signature', verified],
      ['sealed', sealed],
      ['not sealed yet', unsealed],
      ['checkpoints that agree', checkpoints],
    ]),
    counts('Failures', verification.failureCounts),
    '<h2>Records by tenant and decision</h2>',
    table(
      ['tenant', 'records', 'allowed', 'failed', 'outcome unknown', 'denied', 'denied with'],
      report.tenants.map((tenant) => [
        tenant.tenant,
        ...[tenant.records, tenant.allowed, tenant.failed, tenant.outcome_unknown, tenant.denied],
        countsText(tenant.denials),
      ]),
    ),
    '<h2>Days</h2>',
    table(
      ['day', 'state', 'records'],
      report.days.map(({ day, state, records }) => [day, state, records]),
    ),
    '<h2>Gaps</h2>',
    table(
      ['place', 'kind', 'what'],
      report.gaps.map(({ file, line, kind, message }) => [`${file}:${line}`, kind, message]),
    ),
    '<h2>Keys and their validity</h2>',
    table(
      ['key id', 'from leaf', 'until leaf', 'introduced by'],
      report.keys.map((key) => [
        key.key_id,
        key.from_leaf,
        key.until_leaf ?? 'now',
        key.introduced_by ?? 'genesis',
      ]),
    ),
    '<h2>Removals by retention</h2>',
    table(
      ['day', 'removed at', 'records'],
      report.removals.map(({ day, at, records }) => [day, at, records]),
    ),
    '<h2>Holds</h2>',
    report.holds === null
      ? '<p>Not stated.</p>'
      : table(
          ['tenant', 'from', 'to'],
          report.holds.map(({ tenant, from, to }) => [tenant ?? 'all', from ?? '', to ?? '']),
        ),
    '<h2>Heads and witnesses</h2>',
    ...report.heads.map((note) => `<pre>${escapeHtml(note)}</pre>`),
    table(
      ['witness', 'cosigned leaves', 'at, by its clock', 'cosignature checked'],
      report.witnesses.map(({ name, size, at, checked }) => {
        return [name, size ?? 'none', at ?? '', checked ? 'yes' : 'no']
      }),
    ),
    '<h2>Where the clock was set back</h2>',
    table(
      ['journal line', 'from', 'to', 'times before, by witnesses', 'times after, by witnesses'],
      clockSetBacks.map(({ line, from, to, before, after }) => [line, from, to, before, after]),
    ),
    '<h2>Not covered</h2>',
    `<ul>${report.not_covered.map((text) => `<li>${escapeHtml(text)}</li>`).join('')}</ul>`,
    '<h2>Signed report</h2>',
    '<p>This page is not signed. The following JSON is, and has the same content.</p>',
    `<pre>${escapeHtml(signed)}</pre>`,
  ]
  const title = `<title>Audit log ${escapeHtml(from)} to ${escapeHtml(to)}</title>`
  const headElement = `<meta charset="utf-8">${title}<style>${STYLE}</style>`
  return `<!doctype html>\n<html lang="en"><head>${headElement}</head><body>\n${sections.join('\n')}\n</body></html>\n`
}

function counts(title: string, values: Readonly<Record<string, number>>): string {
  const text = countsText(values)
  return text === '' ? '' : `<p>${escapeHtml(title)}: ${escapeHtml(text)}</p>`
}

function countsText(values: Readonly<Record<string, number>>): string {
  return Object.entries(values)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ')
}

type Cell = string | number

function list(rows: readonly (readonly [string, Cell])[]): string {
  return table([], rows)
}

function table(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  if (rows.length === 0) return '<p>None.</p>'
  const head = headings.length === 0 ? '' : row('th', headings)
  return `<table>${head}${rows.map((cells) => row('td', cells)).join('')}</table>`
}

function row(tag: 'th' | 'td', cells: readonly Cell[]): string {
  return `<tr>${cells.map((cell) => `<${tag}>${escapeHtml(String(cell))}</${tag}>`).join('')}</tr>`
}

function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  return text.replaceAll(/[&<>"]/g, (character) => entities[character] ?? '')
}
