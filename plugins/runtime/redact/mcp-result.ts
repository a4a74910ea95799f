// Redacts the result of an MCP method. Text is redacted as text or as the JSON that it contains. Images, audio, blobs,
// links and tasks cannot be redacted and are replaced.
import { isJsonObject } from '@svc/core/json'
import { mapChildren, type OutputRule, redactJson, redactText } from './rule.js'

type Fields = Readonly<Record<string, unknown>>

/** The redacted result of `method`, valid under the schema of its result. */
export function redactResult(result: unknown, method: string | null, rule: OutputRule): unknown {
  // The result of a task is fetched by a later request, which this decision does not cover: the task id is removed.
  if (rule.isAll || !isJsonObject(result) || isJsonObject(result['task']))
    return replacedResult(result, method, rule)
  const members: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(result)) {
    const redact = Object.hasOwn(memberRedactors, name) ? memberRedactors[name] : undefined
    members[name] = redact === undefined ? redactStrings(value, rule) : redact(value, rule)
  }
  // Paths also apply to the result itself, not only to each of its texts.
  const redacted = rule.paths.length === 0 ? members : redactJson(members, { ...rule, detectors: [] })
  return isJsonObject(redacted) ? redacted : replacedResult(result, method, rule)
}

/** A JSON-RPC error. Its code is kept; message and data may hold confidential content. */
export function redactError(error: unknown, rule: OutputRule): Fields {
  const { code, message, data } = isJsonObject(error) ? error : {}
  return {
    code: Number.isInteger(code) ? code : -32603,
    message: typeof message === 'string' ? redactText(message, rule) : rule.replacement,
    ...(data === undefined || rule.isAll ? {} : { data: redactJson(data, rule) }),
  }
}

type MemberRedactor = (value: unknown, rule: OutputRule) => unknown

const memberRedactors: Readonly<Record<string, MemberRedactor>> = {
  content: (value, rule) => (Array.isArray(value) ? value.map((item) => redactBlock(item, rule)) : []),
  structuredContent: redactJson,
  messages: (value, rule) => (Array.isArray(value) ? value.map((item) => redactMessage(item, rule)) : []),
  contents: (value, rule) => (Array.isArray(value) ? value.map((item) => redactContents(item, rule)) : []),
}

/** Applies only patterns: a path starts at the result, not at each of its members. */
function redactStrings(value: unknown, rule: OutputRule): unknown {
  return redactJson(value, { ...rule, paths: [] })
}

function redactBlock(value: unknown, rule: OutputRule): unknown {
  if (!isJsonObject(value)) return textBlock(rule.replacement)
  const { type, text, resource } = value
  if (type === 'text' && typeof text === 'string')
    return { ...redactOthers(value, rule), text: redactText(text, rule) }
  if (type === 'resource' && isJsonObject(resource) && typeof resource['text'] === 'string') {
    return { ...redactOthers(value, rule), resource: redactContents(resource, rule) }
  }
  return textBlock(rule.replacement)
}

function redactMessage(value: unknown, rule: OutputRule): unknown {
  const { role, content } = isJsonObject(value) ? value : {}
  const redacted = Array.isArray(content)
    ? content.map((item) => redactBlock(item, rule))
    : redactBlock(content, rule)
  return { role: role === 'assistant' ? role : 'user', content: redacted }
}

function redactContents(value: unknown, rule: OutputRule): unknown {
  if (!isJsonObject(value)) return { uri: '', text: rule.replacement }
  const { uri, text } = value
  if (typeof text === 'string') return { ...redactOthers(value, rule), text: redactText(text, rule) }
  return {
    uri: typeof uri === 'string' ? redactStrings(uri, rule) : '',
    mimeType: 'text/plain',
    text: rule.replacement,
  }
}

/** The members other than `text` and `resource`. */
function redactOthers(value: Fields, rule: OutputRule): object {
  const { text: _text, resource: _resource, ...others } = value
  return mapChildren(others, (child) => redactStrings(child, rule)) as object
}

function replacedResult(result: unknown, method: string | null, { replacement }: OutputRule): Fields {
  const { resultType, isError } = isJsonObject(result) ? result : {}
  const kept = {
    // MCP 2026-07-28: tells the client that no further input is required.
    ...(resultType === undefined ? {} : { resultType: 'complete' }),
    ...(isError === true ? { isError } : {}),
  }
  switch (method) {
    case 'tools/call':
      return { ...kept, content: [textBlock(replacement)] }
    case 'prompts/get':
      return { ...kept, messages: [{ role: 'user', content: textBlock(replacement) }] }
    case 'resources/read':
      return { ...kept, contents: [{ uri: firstUri(result), mimeType: 'text/plain', text: replacement }] }
    case 'completion/complete':
      return { ...kept, completion: { values: [] } }
    default:
      return kept
  }
}

/** The caller knows the URI: it requested the resource by it. */
function firstUri(result: unknown): string {
  const { contents: list } = isJsonObject(result) ? result : {}
  const [first] = Array.isArray(list) ? (list as unknown[]) : []
  const { uri } = isJsonObject(first) ? first : {}
  return typeof uri === 'string' ? uri : ''
}

function textBlock(text: string): Fields {
  return { type: 'text', text }
}
