// The differences that remain between a server's responses and those through gateways, with their reasons.
import { type Revision, revisions, STATELESS } from '../../support/mcp-revisions.js'
import { handshakeRevisions } from '../../support/mcp-sdks.js'

export interface Difference {
  readonly revisions: readonly Revision[]
  /** The requests, by name, which differ in each of the revisions. */
  readonly requests: RegExp
  /** The responses in brief. */
  readonly directly: RegExp
  readonly through: RegExp
  readonly reason: string
}

const sessions = handshakeRevisions
const stateless = [STATELESS] as const
const olderSdks = ['2025-03-26', '2025-06-18'] as const
const newestSdk = ['2025-11-25'] as const

const badParams = 'the error is in the params, and the id is known (JSON-RPC 2.0 §5.1)'
const absent = 'clients write null for an optional member that is absent'
const unread = 'params that were not judged are not sent'
const ambiguous = 'parsers differ in what they read'
const noMessage = 'it is JSON but not a message (JSON-RPC 2.0 §5.1)'
const noBatches =
  'the gateway accepts no batches; 2025-03-26 asks for them, and servers of later revisions take them'
const mediaType = 'JSON-RPC has a code for a body that is not a message'
const dnsRebinding = 'a web page must not act for its user'
const repeats = 'a header that repeats the body must agree with it'

type Row = readonly [
  revisions: readonly Revision[],
  requests: RegExp,
  directly: RegExp,
  through: RegExp,
  reason: string,
]

const rows: readonly Row[] = [
  // Params.
  [
    sessions,
    /^a (?:tool call|prompt|read|completion) without (?:params|name|uri|ref)$/,
    /^200 1 -32603$/,
    /^200 1 -32602$/,
    badParams,
  ],
  [
    sessions,
    /^a (?:tool call|prompt|read) with (?:null|a number|an array|an object) as (?:name|uri)$/,
    /^200 1 -32603$/,
    /^200 1 -32602$/,
    badParams,
  ],
  [sessions, /^a read with an empty text as uri$/, /^200 1 -32603$/, /^200 1 -32602$/, badParams],
  [newestSdk, /^a tool call with an empty text as name$/, /^200 1 result$/, /^200 1 -32602$/, badParams],
  [
    sessions,
    /^a tool call with (?!an object|null).* as arguments$/,
    /^200 1 -32603$/,
    /^200 1 -32602$/,
    badParams,
  ],
  [
    revisions,
    /^a prompt with (?!an object|null).* as arguments$/,
    /^200 1 -32603$/,
    /^200 1 -32602$/,
    badParams,
  ],
  [
    sessions,
    /^a (?:tool call with null as arguments|list with params that are null)$/,
    /^(?:200 1 -32603|400 null -32700)$/,
    /^200 1 result$/,
    absent,
  ],
  [revisions, /^a prompt with null as arguments$/, /^200 1 -32603$/, /^200 1 result$/, absent],
  [revisions, /^a completion with (?!a look-alike).* as ref$/, /^200 1 -32603$/, /^200 1 -32602$/, badParams],
  [
    stateless,
    /^a (?:prompt|read|completion) without (?:params|name|uri|ref)$/,
    /^200 1 -32603$/,
    /^200 1 -32602$/,
    badParams,
  ],
  [
    stateless,
    /^a (?:prompt|read) with (?:null|a number|an array|an object) as (?:name|uri)$/,
    /^200 1 -32603$/,
    /^200 1 -32602$/,
    badParams,
  ],
  [
    sessions,
    /^a .+ with params that are (?:a number|a text|an array)$/,
    /^400 null -32700$/,
    /^200 1 -32602$/,
    badParams,
  ],
  [sessions, /^a (?!list).+ with params that are null$/, /^400 null -32700$/, /^200 1 -32602$/, badParams],
  [stateless, /^a .+ with params that are /, /^400 1 -32600$/, /^(?:200|400) 1 -32602$/, badParams],
  [stateless, /^a call with (?:null|a text) as _meta$/, /^400 1 -32600$/, /^400 1 -32602$/, badParams],
  [stateless, /^a call with an object as progress token$/, /^400 1 -32600$/, /^200 1 -32602$/, badParams],
  [revisions, /^a (?!list).+ with an unknown param$/, /^200 1 result$/, /^200 1 -32602$/, unread],
  [revisions, /with a look-alike of /, /^200 1 result$/, /^200 1 -32602$/, 'some servers ignore case'],
  [
    newestSdk,
    /^a tool whose name (?:climbs|has an escape)/,
    /^200 1 result$/,
    /^200 1 -32602$/,
    'a server could resolve the name to another one',
  ],
  [
    sessions,
    /^no such task$/,
    /^200 1 -32601$/,
    /^200 1 -32602$/,
    "another caller's task is not found, which this server without tasks does not say",
  ],
  [
    stateless,
    /^no such task$/,
    /^404 1 -32601$/,
    /^400 1 -32021$/,
    'the client does not declare the extension, which this server does not have',
  ],

  // Ids and bodies.
  [
    sessions,
    /with an id that is (?:a fraction|null|true|an array|an object)$/,
    /^400 null -32700$/,
    /^400 null -32600$/,
    noMessage,
  ],
  [stateless, /with an id that is a fraction$/, /^400 1.5 -32600$/, /^400 null -32600$/, 'it is not an id'],
  [
    revisions,
    /^a tool call with no id$/,
    /^202$/,
    /^400 null -32600$/,
    'a server could run it without a record',
  ],
  [
    sessions,
    /^(?:a text|a number|null|true|an empty object|no method|a response with(?:out an id| both))$/,
    /^400 null -32700$/,
    /^400 null -32600$/,
    noMessage,
  ],
  [
    sessions,
    /^(?:no JSON-RPC version|JSON-RPC 1\.0|a JSON-RPC version .+|a method that is .+|an unknown member|a request with a result)$/,
    /^400 null -32700$/,
    /^400 1 -32600$/,
    noMessage,
  ],
  [stateless, /^a method that is /, /^400 null -32600$/, /^400 1 -32600$/, 'the id is known'],
  [
    revisions,
    /^an empty method$/,
    /^(?:200 1 -32601|400 1 -32602)$/,
    /^400 1 -32600$/,
    'records need a name',
  ],
  [revisions, /^(?:an id|a method) twice$/, /^200 [12] result$/, /^200 [12] -32602$/, ambiguous],
  [
    [...newestSdk, ...stateless],
    /^a number that is not exact$/,
    /^400 (?:null -32700|\d+ -32600)$/,
    /^200 \d+ result$/,
    'the server gets an id of the gateway',
  ],
  [revisions, /^half a surrogate pair$/, /^200 "\\ud800" result$/, /^200 "\\ud800" -32602$/, ambiguous],
  [
    revisions,
    /^bytes that are not UTF-8$/,
    /^(?:200|400) "\ufffd" -3260[12]$/,
    /^400 null -32700$/,
    ambiguous,
  ],
  [
    revisions,
    /^a byte order mark$/,
    /^200 1 result$/,
    /^400 null -32700$/,
    'JSON begins without one (RFC 8259 §8.1)',
  ],
  [
    stateless,
    /^(?:a|an error) response$|^a response whose error is text$/,
    /^400 null -32(?:000|600)$/,
    /^400 null -32020$/,
    'a response has no Mcp-Method',
  ],

  // Batches.
  [
    sessions,
    /^a batch(?: of .+| with a notification| with a refused call)?$/,
    /^20[02]/,
    /^400 null -32600$/,
    noBatches,
  ],
  [
    sessions,
    /^a batch (?:in a batch|with a part that is not a message)$/,
    /^400 null -32700$/,
    /^400 null -32600$/,
    noBatches,
  ],
  [sessions, /^an empty batch$/, /^202$/, /^400 null -32600$/, 'it is not a batch (JSON-RPC 2.0 §6)'],
  [
    stateless,
    /^a batch of (?:notifications|a response)$/,
    /^400 null -32000$/,
    /^400 null -32600$/,
    'JSON-RPC has a code for it',
  ],

  // Headers.
  [
    sessions,
    /^a list with no accept$/,
    /^406 null -32000$/,
    /^200 1 result$/,
    'without the header anything is accepted (RFC 9110 §12.5.1)',
  ],
  [
    revisions,
    /^a list with (?:no|"(?:text\/plain|application\/(?:x-www-form-urlencoded|json-rpc)|text\/html; .+)" as) content-type$/,
    /^(?:415 null -32000|400 null -32700|200 1 result)$/,
    /^415 null -32600$/,
    mediaType,
  ],
  [
    olderSdks,
    /^a list with "Application\/JSON" as content-type$/,
    /^415 null -32000$/,
    /^200 1 result$/,
    'media types ignore case (RFC 9110 §8.3.1)',
  ],
  [
    olderSdks,
    /^a list with "application\/json; charset=utf-16" as content-type$/,
    /^400 null -32700$/,
    /^200 1 result$/,
    'JSON has no such parameter (RFC 8259 §11)',
  ],
  [
    sessions,
    /^a list with "20(?:26-07-28|99-01-01)" as mcp-protocol-version$/,
    /^(?:400 null -32000|200 1 result)$/,
    /^400 1 -32602$/,
    'that revision needs a version in _meta',
  ],
  [
    revisions,
    /^a list with "(?:https:.+|null)" as origin$/,
    /^200 1 result$/,
    /^403 another object$/,
    dnsRebinding,
  ],
  [
    revisions,
    /^a list with "example\.com" as host$/,
    /^(?:200 1 result|403)$/,
    /^400 another object$/,
    dnsRebinding,
  ],
  [stateless, /^a list with "other" as mcp-name$/, /^200 1 result$/, /^400 1 -32020$/, repeats],
  [stateless, /^a method (?:in other letters|with a dot)$/, /^404 1 -32601$/, /^400 1 -32020$/, repeats],
  [stateless, /^a call with a param header$/, /^200 1 result$/, /^400 1 -32020$/, repeats],
  [stateless, /^a call with a number as version$/, /^400 1 -32602$/, /^400 1 -32020$/, repeats],
  [
    revisions,
    /^a list with "gzip" as content-encoding$/,
    /^200 1 result$/,
    /^400 another object$/,
    'the body is judged as it came; this server does not decode it either',
  ],

  [
    ['2025-06-18', '2025-11-25'],
    /^a list with "" as mcp-protocol-version$/,
    /^400 null -32000$/,
    /^200 1 result$/,
    'an empty header says nothing',
  ],

  // HTTP methods and sessions.
  [
    sessions,
    /^an initialize in a session$/,
    /^400 null -32600$/,
    /^200 1 result$/,
    'clients that begin again leave the header of the old session set',
  ],
  [
    revisions,
    /^an? (?:PUT|PATCH|OPTIONS)$/,
    /^405 null -32000$/,
    /^405 another object$/,
    'it is not a message',
  ],
  [
    sessions,
    /, session unknown$/,
    /^404 null -32001$/,
    /^404 (?:1|null) 404$/,
    'the code is the HTTP status of the refusal',
  ],
]

export const differences: readonly Difference[] = rows.map(([of, requests, directly, through, reason]) => ({
  revisions: of,
  requests,
  directly,
  through,
  reason,
}))
