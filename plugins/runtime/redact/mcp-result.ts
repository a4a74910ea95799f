// Redacts what an MCP method gives. Text is redacted as text or as the JSON that it holds; what only a program can
// read (images, audio, blobs, links, tasks) cannot be, and is withheld.
import { mapChildren } from './path.js'
import { type OutputRule, redactJson, redactText } from './rule.js'

type Fields = Readonly<Record<string, unknown>>

/** The result of `method`, in the shape that its clients expect. */
export function redactResult(result: unknown, method: string | null, rule: OutputRule): unknown {
  // A task's outcome is fetched later, past the verdict on this call: without its name nobody can.
  if (rule.isAll || !isFields(result) || isFields(result['task'])) return withheldResult(result, method, rule)
  const parts: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(result)) {
    const read = Object.hasOwn(readers, name) ? readers[name] : undefined
    parts[name] = read === undefined ? redactStrings(value, rule) : read(value, rule)
  }
  // What a path selects in the result itself, beside what it selects in each of its texts.
  const shown = rule.paths.length === 0 ? parts : redactJson(parts, { ...rule, detectors: [] })
  return isFields(shown) ? shown : withheldResult(result, method, rule)
}

/** A JSON-RPC error: its code says how the call ended, the rest may hold what it would have given. */
export function redactError(error: unknown, rule: OutputRule): Fields {
  const { code, message, data } = isFields(error) ? error : {}
  const told = typeof message === 'string' ? redactText(message, rule) : rule.replacement
  const isDataTold = data !== undefined && !rule.isAll
  return {
    code: Number.isInteger(code) ? code : -32603,
    message: told,
    ...(isDataTold ? { data: redactJson(data, rule) } : {}),
  }
}

type Reader = (value: unknown, rule: OutputRule) => unknown

const readers: Readonly<Record<string, Reader>> = {
  content: (value, rule) => (Array.isArray(value) ? value.map((one) => block(one, rule)) : []),
  structuredContent: redactJson,
  messages: (value, rule) => (Array.isArray(value) ? value.map((one) => message(one, rule)) : []),
  contents: (value, rule) => (Array.isArray(value) ? value.map((one) => contents(one, rule)) : []),
}

/** Only patterns: a path begins at the result, not at each of its members. */
function redactStrings(value: unknown, rule: OutputRule): unknown {
  return redactJson(value, { ...rule, paths: [] })
}

function block(value: unknown, rule: OutputRule): unknown {
  if (!isFields(value)) return textBlock(rule.replacement)
  const { type, text, resource } = value
  if (type === 'text' && typeof text === 'string')
    return { ...withoutPaths(value, rule), text: redactText(text, rule) }
  if (type === 'resource' && isFields(resource) && typeof resource['text'] === 'string') {
    return { ...withoutPaths(value, rule), resource: contents(resource, rule) }
  }
  return textBlock(rule.replacement)
}

function message(value: unknown, rule: OutputRule): unknown {
  const { role, content } = isFields(value) ? value : {}
  const shown = Array.isArray(content) ? content.map((one) => block(one, rule)) : block(content, rule)
  return { role: role === 'assistant' ? role : 'user', content: shown }
}

function contents(value: unknown, rule: OutputRule): unknown {
  if (!isFields(value)) return { uri: '', text: rule.replacement }
  const { uri, text } = value
  if (typeof text === 'string') return { ...withoutPaths(value, rule), text: redactText(text, rule) }
  return {
    uri: typeof uri === 'string' ? redactStrings(uri, rule) : '',
    mimeType: 'text/plain',
    text: rule.replacement,
  }
}

function withoutPaths(value: Fields, rule: OutputRule): object {
  const shown = mapChildren(value, (child, key) =>
    key === 'text' || key === 'resource' ? undefined : redactStrings(child, rule),
  )
  return { ...(shown as object) }
}

function withheldResult(result: unknown, method: string | null, { replacement }: OutputRule): Fields {
  const { resultType, isError } = isFields(result) ? result : {}
  const kept = {
    // 2026-07-28: a client must know that nothing more is asked of it.
    ...(resultType === undefined ? {} : { resultType: 'complete' }),
    ...(isError === true ? { isError } : {}),
  }
  switch (method) {
    case 'tools/call':
      return { ...kept, content: [textBlock(replacement)] }
    case 'prompts/get':
      return { ...kept, messages: [{ role: 'user', content: textBlock(replacement) }] }
    case 'resources/read':
      return { ...kept, contents: [{ uri: uriIn(result), mimeType: 'text/plain', text: replacement }] }
    case 'completion/complete':
      return { ...kept, completion: { values: [] } }
    default:
      return kept
  }
}

/** Its caller asked for it by this name. */
function uriIn(result: unknown): string {
  const { contents: list } = isFields(result) ? result : {}
  const [first] = Array.isArray(list) ? (list as unknown[]) : []
  const { uri } = isFields(first) ? first : {}
  return typeof uri === 'string' ? uri : ''
}

function textBlock(text: string): Fields {
  return { type: 'text', text }
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
