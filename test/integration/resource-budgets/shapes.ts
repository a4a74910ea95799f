// Shapes of messages that cost the gateway more than the peer that sends them, written piece by piece.

/**
 * What the text is: a JSON `value`, the value of `pages` of a list of tools, the `id` of a task or of a message (`rpc id`),
 * whole `lines`, or lines of a request's `headers`.
 */
export type Place = 'value' | 'pages' | 'id' | 'rpc id' | 'lines' | 'headers'

export interface Shape {
  readonly place: Place
  /** How often it is sent in one attack: what is kept must not add up. */
  readonly times: number
  /** Pause between two pieces, in milliseconds. */
  readonly pauseMs: number
  /** Text of about `bytes` bytes, or without end. */
  text(bytes: number): Iterable<string>
}

const PIECE = 65_536
const endless = Number.POSITIVE_INFINITY

function shape(place: Place, text: Shape['text'], more: Partial<Shape> = {}): Shape {
  return { place, times: 1, pauseMs: 0, text, ...more }
}

const notification =
  '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'

export const shapes = {
  'many objects': shape('value', (bytes) => listOf(() => '{}', bytes)),
  'many arrays': shape('value', (bytes) => listOf(() => '[]', bytes)),
  'many numbers': shape('value', (bytes) => listOf(() => '1', bytes)),
  'many strings': shape('value', (bytes) => listOf((index) => `"${index.toString(36)}"`, bytes)),
  'many rows': shape('value', (bytes) => listOf((index) => `{"id":${index},"name":"row ${index}"}`, bytes)),
  'many members': shape('value', (bytes) => objectOf((index) => `"m${index}":1`, bytes)),
  'a huge string': shape('value', (bytes) => wrapped('"', repeated('x', bytes), '"')),
  'a huge string outside Latin-1': shape('value', (bytes) => wrapped('"\u20ac', repeated('x', bytes), '"')),
  'an escaped string': shape('value', (bytes) => wrapped('"', repeated('\\u0041', bytes), '"')),
  // What costs the search of texts much: see the tests of its time.
  'variables in long texts': shape('value', (bytes) =>
    listOf(() => `"${'$a '.repeat(20_000)} id a=id"`, bytes),
  ),
  'escapes in short texts': shape('value', (bytes) => listOf(() => '"&#x202e;%41&#x20\u200b"', bytes)),
  'marks of chat in texts of JSON': shape('value', (bytes) =>
    listOf(() => '"[\\"[\\\\\\"SYSTEM:w^h\\\\\\"]\\"]"', bytes),
  ),
  'deep nesting': shape('value', (bytes) => deep(bytes / 2)),
  'many line ends': shape('value', (bytes) => wrapped('[', repeated('\n', bytes), ']')),
  'a slow string': shape('value', () => wrapped('"', Array<string>(40).fill('x'.repeat(100)), '"'), {
    pauseMs: 50,
  }),
  'an endless string': shape('value', () => wrapped('"', repeated('x', endless), '"')),
  'an endless list': shape('value', () => listOf(() => '{}', endless)),
  'endless pages': shape('pages', (bytes) =>
    listOf((index) => `{"name":"t${index}","description":"${'x'.repeat(4_096)}"}`, bytes),
  ),
  'pages of many tools': shape('pages', (bytes) => listOf((index) => `{"name":"t${index}"}`, bytes)),
  'long ids': shape('id', (bytes) => wrapped('"', repeated('i', bytes), '"'), { times: 12 }),
  'a deep id': shape('rpc id', (bytes) => deep(bytes / 2)),
  'an id that is an array': shape('rpc id', () => ['[[]]']),
  'a long id': shape('rpc id', (bytes) => wrapped('"', repeated('i', bytes), '"')),
  'many notifications': shape('lines', (bytes) => repeated(notification, bytes)),
  'endless notifications': shape('lines', () => repeated(notification, endless)),
  'endless responses to nothing': shape('lines', () =>
    repeated('{"jsonrpc":"2.0","id":90000000,"result":{}}\n', endless),
  ),
  'endless text': shape('lines', () => repeated('a server that prints in a loop\n', endless)),
  'endless empty lines': shape('lines', () => repeated('\n', endless)),
  'an endless line': shape('lines', () => repeated('x', endless)),
  'a long header': shape('headers', (bytes) => wrapped('x-long: ', repeated('x', bytes), '\r\n')),
  'many headers': shape('headers', (bytes) => repeated('x-many: x\r\n', bytes)),
  'endless headers': shape('headers', () => repeated('x-many: x\r\n', endless)),
} satisfies Readonly<Record<string, Shape>>

export type ShapeName = keyof typeof shapes

function* listOf(item: (index: number) => string, bytes: number): Iterable<string> {
  yield '['
  yield* separated(item, bytes)
  yield ']'
}

function* objectOf(member: (index: number) => string, bytes: number): Iterable<string> {
  yield '{'
  yield* separated(member, bytes)
  yield '}'
}

function* separated(item: (index: number) => string, bytes: number): Iterable<string> {
  let piece = item(0)
  let sent = 0
  for (let index = 1; sent + piece.length < bytes; index++) {
    piece += `,${item(index)}`
    if (piece.length < PIECE) continue
    sent += piece.length
    yield piece
    piece = ''
  }
  yield piece
}

function* wrapped(open: string, inner: Iterable<string>, close: string): Iterable<string> {
  yield open
  yield* inner
  yield close
}

function* repeated(unit: string, bytes: number): Iterable<string> {
  const piece = unit.repeat(Math.floor(PIECE / unit.length))
  for (let sent = 0; sent < bytes; sent += piece.length) yield piece
}

function* deep(levels: number): Iterable<string> {
  yield* repeated('[', levels)
  yield* repeated(']', levels)
}
