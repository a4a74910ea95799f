// The differences between the responses through a gateway and those at an endpoint of several servers, with their reasons.
import { type Revision, revisions, STATELESS } from '../../support/mcp-revisions.js'
import { handshakeRevisions as sessions } from '../../support/mcp-sdks.js'

const stateless = [STATELESS] as const
const oldest = ['2025-03-26'] as const
const badParams = 'the error is in the params (JSON-RPC 2.0 §5.1)'

/** The responses in brief. */
export const differencesAtSeveral: readonly (readonly [
  revisions: readonly Revision[],
  requests: RegExp,
  atSeveral: RegExp,
  reason: string,
])[] = [
  [
    sessions,
    /^a list of tasks$/,
    /^200 1 result$/,
    'the servers without tasks are left out, which leaves an empty list',
  ],
  [oldest, /^a log level$/, /^200 1 result$/, 'it counts for servers that log and are linked later'],
  [sessions, /^an invalid log level$/, /^200 1 -32602$/, badParams],
  [revisions, /^a list from an invalid cursor$/, /^200 1 -32602$/, 'cursors are those of the gateway'],
  [
    ['2025-11-25'],
    /^(?:no such tool|a tool with a long name|a tool whose name (?:has a space|is not in NFC)|a tool call with a text as name)$/,
    /^200 1 -32602$/,
    'no server has the name, so no server can respond with a result that has isError',
  ],
  [sessions, /^a read (?:of no URI|with a text as uri)$/, /^200 1 -32602$/, badParams],
  [sessions, /^a response whose error is text$/, /^202$/, 'no server asked for it, so none gets it'],
  [
    sessions,
    /^a list with "(?:\*\/\*|application\/json|text\/event-stream|text\/html)" as accept$/,
    /^200 1 result$/,
    'the response is JSON, which any client of the protocol reads',
  ],
  [
    sessions,
    /^a list with "none" as mcp-protocol-version$/,
    /^400 1 -32600$/,
    'it is not a revision of the endpoint',
  ],
  [
    ['2025-06-18'],
    /^a list with "2025-11-25" as mcp-protocol-version$/,
    /^200 1 result$/,
    'the endpoint has more revisions than this server',
  ],
  [sessions, /^a GET that accepts no events$/, /^406 null -32600$/, 'JSON-RPC has a code for it'],
  [
    sessions,
    /^a (?:GET|DELETE) without a session$|, session none$/,
    /^400 (?:1|null) -32600$/,
    'JSON-RPC has a code for it',
  ],
  [
    sessions,
    /^an initialize (?:with a number as revision|without capabilities|without params)$/,
    /^200 1 result$/,
    'what is missing has a default',
  ],
  [sessions, /, session ended$/, /^404 (?:1|null) 404$/, 'the code is the HTTP status of the refusal'],
  [sessions, /^a DELETE$/, /^204$/, 'the response has no body (RFC 9110 §15.3.5)'],
  [
    stateless,
    /^a GET that accepts no events$|^a (?:GET|DELETE) without a session$/,
    /^405 another object$/,
    'it is not a message',
  ],
]
