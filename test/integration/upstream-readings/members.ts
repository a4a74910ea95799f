// Sends generated JSON through a whole gateway, in requests and in responses. Every parser must read the same value from
// the forwarded text, and the record must hash that value.
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { Chance } from '../../support/chance.js'
import { type Message, ReadersGateway, type Reading } from './experiment.js'
import { type Read, takingFirst, takingLast } from './json-readers.js'

const names = ['a', 'b', 'amount', 'name', '__proto__', 'é', ''] as const
const numbers = ['1', '10', '1.0', '1e1', '-0', '0.1', '1e400', '9007199254740993', '1E-2'] as const
const strings = [
  '"x"',
  '"\\u0078"',
  '"é"',
  '"e\\u0301"',
  '"\\ud83d\\ude00"',
  '"\\ud83d"',
  '"a\\/b"',
  '""',
] as const
const extras = ['inputResponses', 'requestState', 'task', 'extra', '_meta', 'arguments', 'name'] as const

/** Any JSON value, sometimes with a part that two parsers read differently. */
function value(chance: Chance, depth: number): string {
  const dice = chance.int(0, depth > 2 ? 3 : 6)
  if (dice === 0) return chance.pick(numbers)
  if (dice < 3) return chance.pick(strings)
  if (dice === 3) return chance.pick(['true', 'false', 'null'])
  if (dice === 4) return `[${list(chance, () => value(chance, depth + 1))}]`
  return object(chance, depth)
}

function object(chance: Chance, depth: number): string {
  return `{${list(chance, () => `${name(chance)}:${value(chance, depth + 1)}`)}}`
}

function list(chance: Chance, item: () => string): string {
  return Array.from({ length: chance.int(0, 3) }, item).join(chance.pick([',', ', ']))
}

/** A name, sometimes with its first character escaped. */
function name(chance: Chance): string {
  const text = chance.pick(names)
  const first = text.charCodeAt(0)
  if (text === '' || chance.int(0, 3) > 0) return JSON.stringify(text)
  return `"\\u${first.toString(16).padStart(4, '0')}${text.slice(1)}"`
}

function requestOf(chance: Chance): Message {
  if (chance.int(0, 2) === 0) return { path: '/mcp/billing/get_invoice@1.0.0', body: object(chance, 0) }
  const more = Array.from(
    { length: chance.int(0, 2) },
    () => `,"${chance.pick(extras)}":${chance.int(0, 1) === 0 ? object(chance, 1) : value(chance, 1)}`,
  ).join('')
  const params = `{"name":"get_x","arguments":${object(chance, 0)}${more}}`
  return { path: '/mcp/crm', body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}` }
}

/** A result, sometimes with a member of the message twice. */
function responseOf(chance: Chance, request: string): string {
  const { id, jsonrpc } = JSON.parse(request) as { id?: unknown; jsonrpc?: string }
  if (jsonrpc === undefined) return value(chance, 0)
  const again = chance.int(0, 5) === 0 ? `,"result":{"content":[]}` : ''
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[],"structuredContent":${object(chance, 0)}}${again}}`
}

/** RFC 8785 for the values of the generator. */
function canonical(read: Read): string {
  if (read instanceof Map) {
    const members = [...read].sort(([left], [right]) => (left < right ? -1 : 1))
    return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(',')}}`
  }
  if (Array.isArray(read)) return `[${read.map(canonical).join(',')}]`
  if (typeof read === 'bigint') return String(read)
  // The one number of the generator that no double holds.
  if (read === Number.POSITIVE_INFINITY) return '1e+400'
  return JSON.stringify(read === 0 ? 0 : read)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** The value that the record must hash for the body that an upstream got. */
function recordedValue(body: Read): Read {
  if (!(body instanceof Map) || !body.has('jsonrpc')) return body
  const params = new Map(body.get('params') as ReadonlyMap<string, Read>)
  const args = params.get('arguments') ?? new Map<string, Read>()
  for (const known of ['name', 'arguments']) params.delete(known)
  const meta = params.get('_meta')
  if (meta instanceof Map) {
    const kept = new Map([...meta].filter(([key]) => !unjudged.has(key)))
    if (kept.size === 0) params.delete('_meta')
    else params.set('_meta', kept)
  }
  return params.size === 0 ? args : new Map([['arguments', args] as const, ['params', params] as const])
}

const unjudged = new Set(['progressToken', 'traceparent', 'tracestate', 'baggage'])

/** Whether parsers read the text differently: a member twice, or one of the generator's strings. */
function isAmbiguous(text: string): boolean {
  if (/\\ud83d"/.test(text)) return true
  return !isDeepStrictEqual(takingFirst(text), takingLast(text))
}

function errorIn(
  message: Message,
  { sent, records, inputSha256, outputSha256, isOfBytes, body, status }: Reading,
): string | undefined {
  if (records !== 1) return `${records} records`
  if (sent !== undefined) {
    if (isAmbiguous(message.body)) return 'the caller can have meant something else'
    const last = takingLast(sent.body)
    if (!isDeepStrictEqual(takingFirst(sent.body), last)) return `the upstream got two readings: ${sent.body}`
    if (inputSha256 !== sha256(canonical(recordedValue(last)))) return `the record does not hash ${sent.body}`
  }
  // Over the invoke protocol a response is bytes, hashed as such.
  if (message.path !== '/mcp/crm' || body === '' || status >= 400) return undefined
  const last = takingLast(body)
  if (!isDeepStrictEqual(takingFirst(body), last)) return `the caller got two readings: ${body}`
  const result = last instanceof Map ? last.get('result') : undefined
  if (result === undefined) return undefined
  // A result without a canonical form is hashed as the text that the caller got, in which an infinite number may be null.
  if (outputSha256 !== sha256(isOfBytes ? body : canonical(result)))
    return `the record does not hash the result in ${body}`
  return undefined
}

/** Throws for the first message that is wrong, with the number that generates it. */
export async function compareMembers(seed: number, requests: number): Promise<{ sent: number }> {
  let current = new Chance(seed)
  await using gateway = await new ReadersGateway((body) => responseOf(current, body)).start()
  let sent = 0
  for (let number = seed; number < seed + requests; number++) {
    current = new Chance(number)
    const message = requestOf(current)
    const reading = await gateway.send(message)
    if (reading.sent !== undefined) sent++
    const error = errorIn(message, reading)
    if (error !== undefined) throw new Error(`message ${number} ${JSON.stringify(message)}: ${error}`)
  }
  return { sent }
}
