// Whether a message of the protocol, beside calls, carries text that its sender chose: such text leaves with it. A member that
// the protocol gives a form (revisions 2024-11-05 to 2026-07-28) has none while it keeps to the form.
import type { CallRequest } from '@svc/core'
import { isJsonNumber, isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'

type Form = (value: JsonValue) => boolean

const matching =
  (pattern: RegExp): Form =>
  (value) =>
    typeof value === 'string' && pattern.test(value)
const isNumber: Form = isJsonNumber
const isToken: Form = matching(/^[\w.:+/=@-]{1,64}$/)
/** A string or number that a peer chose (progress tokens, ids of requests). */
const isId: Form = (value) => isNumber(value) || isToken(value)
/** What only the server reads, without space. */
const isOpaque: Form = matching(/^[\w.:+/=~-]{1,256}$/)
const isName: Form = matching(/^[\w.()@/ -]{1,64}$/)
const isDate: Form = matching(/^\d{4}-\d\d-\d\d$/)
const isLevel: Form = matching(/^(?:debug|info|notice|warning|error|critical|alert|emergency)$/)

/** Names, switches and media types, in objects and lists. */
const isCapabilities: Form = (value) =>
  typeof value === 'boolean' ||
  isToken(value) ||
  (Array.isArray(value) ? value.every(isCapabilities) : hasOnly(value, isCapabilities))

const isInfo: Form = (value) =>
  hasForms(value, { name: isName, version: isName, title: isName, websiteUrl: isToken })

const meta: Readonly<Record<string, Form>> = {
  progressToken: isId,
  traceparent: matching(/^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/),
  'io.modelcontextprotocol/protocolVersion': isDate,
  'io.modelcontextprotocol/clientInfo': isInfo,
  'io.modelcontextprotocol/clientCapabilities': isCapabilities,
  'io.modelcontextprotocol/logLevel': isLevel,
}

const list = { cursor: isOpaque }
const task = { taskId: isOpaque }

/** The forms of params by method; the methods that are not here can carry text. */
const methods: Readonly<Record<string, Readonly<Record<string, Form>>>> = {
  ping: {},
  initialize: { protocolVersion: isDate, capabilities: isCapabilities, clientInfo: isInfo },
  'server/discover': {},
  'logging/setLevel': { level: isLevel },
  'subscriptions/listen': { notifications: (value) => hasOnly(value, (one) => typeof one === 'boolean') },
  'tools/list': list,
  'prompts/list': list,
  'resources/list': list,
  'resources/templates/list': list,
  'tasks/list': list,
  'tasks/get': task,
  'tasks/result': task,
  'tasks/cancel': task,
  'notifications/initialized': {},
  'notifications/cancelled': { requestId: isId },
  'notifications/progress': { progressToken: isId, progress: isNumber, total: isNumber },
  'notifications/roots/list_changed': {},
}

/** For a message of the kind `protocol`. */
export function hasFreeText({ method, args }: CallRequest): boolean {
  // A GET, a DELETE, or a response, of which only an error or a result has content.
  if (method === null) return isJsonObject(args) && Object.keys(args).length > 0 && !isConfirmation(args)
  const forms = Object.hasOwn(methods, method) ? methods[method] : undefined
  return forms === undefined || !hasForms(args, { ...forms, _meta: (value) => hasForms(value, meta) })
}

/** An empty result confirms a message. */
function isConfirmation({ result, error }: JsonObject): boolean {
  return error === undefined && isJsonObject(result) && Object.keys(result).length === 0
}

function hasForms(value: JsonValue, forms: Readonly<Record<string, Form>>): boolean {
  return (
    isJsonObject(value) &&
    Object.entries(value).every(
      ([name, member]) => Object.hasOwn(forms, name) && forms[name]?.(member) === true,
    )
  )
}

function hasOnly(value: JsonValue, form: Form): boolean {
  return isJsonObject(value) && Object.entries(value).every(([name, member]) => isToken(name) && form(member))
}
