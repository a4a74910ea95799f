// A notice as a sentence for a chat. Values are code spans, and characters that any of the chats would read as markup, as a
// mention or as a special sequence are replaced by ones that look alike: Mattermost translates `<!channel>` in code too.
import type { Notice } from '@svc/core'
import { type JsonValue, visibleInLine } from '@svc/core/json'

/** Characters of a value. */
const maxValue = 200

/** The text before the tool in notices of an escalation. */
const beginnings: Readonly<Record<string, string>> = {
  'escalation.opened': 'Waits for approval',
  'escalation.reminder': 'Still waits for approval',
  'escalation.second_set': 'Still waits for approval, and you may vote now',
  'escalation.emergency': 'Runs in an emergency before it is approved, and needs a review',
  'escalation.review_open': 'Ran in an emergency and still needs its review',
  'escalation.reviewed': 'The review of an emergency call is done',
}

const isWaiting: ReadonlySet<string> = new Set([
  'escalation.opened',
  'escalation.reminder',
  'escalation.second_set',
])

export function noticeText(notice: Notice): string {
  const { type, data } = notice
  if (type.startsWith('escalation.')) return escalationText(notice)
  return [code(type), factTexts(Object.entries(data)).join(', ')].filter((part) => part !== '').join(': ')
}

function escalationText({ type, data }: Notice): string {
  const { status, tool, tenant, severity, reasons, expires_at: expiresAt, url } = data
  const beginning = beginnings[type] ?? (status === 'approved' ? 'Approved' : 'Rejected')
  const facts = factTexts([
    ['tenant', tenant],
    ['severity', severity],
    ['because of', reasons],
    ['approval set', data['approval_set_id']],
    ['review', data['review']],
    ['decide before', isWaiting.has(type) ? expiresAt : undefined],
  ])
  const sentence = `${beginning}: ${[code(String(tool)), ...facts].join(', ')}.`
  return typeof url === 'string' ? `${sentence}\n${url}` : sentence
}

function factTexts(facts: readonly (readonly [name: string, value: JsonValue | undefined])[]): string[] {
  return facts.flatMap(([name, value]) => {
    const text = scalarText(value)
    return text === undefined ? [] : [`${name} ${code(text)}`]
  })
}

/** Undefined for an object, and for what is empty or not there. */
function scalarText(value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null) return undefined
  if (Array.isArray(value)) return value.flatMap((one) => scalarText(one) ?? []).join(', ') || undefined
  return typeof value === 'object' ? undefined : String(value) || undefined
}

const lookAlikes: Readonly<Record<string, string>> = { '`': "'", '<': '‹', '>': '›', '&': '＆', '@': '＠' }

/** `@` before a digit is that of a version. */
function code(value: string): string {
  const cut = value.length > maxValue ? `${value.slice(0, maxValue)}…` : value
  return `\`${visibleInLine(cut.toWellFormed()).replaceAll(/[`<>&]|@(?!\d)/g, (one) => lookAlikes[one] ?? '')}\``
}
