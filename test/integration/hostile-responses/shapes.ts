// What a server may send to cost the gateway more than it costs the server: JSON values, written piece by piece.

/**
 * Where in a message the value stands; `pages` is a whole list of tools, and a cursor to the next one, `id` the id of a
 * task, and `rpc id` that of the message.
 */
export type Place = 'value' | 'pages' | 'id' | 'rpc id'

export interface Shape {
  readonly place: Place
  /** How often it is sent in one attack: what is kept must not add up. */
  readonly times: number
  /** JSON text of about `bytes` bytes, or without end. */
  text(bytes: number): Iterable<string>
}

const PIECE = 65_536

function value(text: Shape['text']): Shape {
  return { place: 'value', times: 1, text }
}

export const shapes = {
  'many objects': value((bytes) => listOf(() => '{}', bytes)),
  'many arrays': value((bytes) => listOf(() => '[]', bytes)),
  'many numbers': value((bytes) => listOf(() => '1', bytes)),
  'many strings': value((bytes) => listOf((index) => `"${index.toString(36)}"`, bytes)),
  'many rows': value((bytes) => listOf((index) => `{"id":${index},"name":"row ${index}"}`, bytes)),
  'many members': value((bytes) => objectOf((index) => `"m${index}":1`, bytes)),
  'a huge string': value((bytes) => wrapped('"', repeated('x', bytes), '"')),
  'a huge string outside Latin-1': value((bytes) => wrapped('"\u20ac', repeated('x', bytes), '"')),
  'an escaped string': value((bytes) => wrapped('"', repeated('\\u0041', bytes), '"')),
  'deep nesting': value((bytes) => deep(bytes / 2)),
  'many lines': value((bytes) => wrapped('[', repeated('\n', bytes), ']')),
  'an endless string': value(() => wrapped('"', repeated('x', Number.POSITIVE_INFINITY), '"')),
  'an endless list': value(() => listOf(() => '{}', Number.POSITIVE_INFINITY)),
  'endless pages': {
    place: 'pages',
    times: 1,
    text: (bytes) => listOf((index) => `{"name":"t${index}","description":"${'x'.repeat(4_096)}"}`, bytes),
  },
  'pages of many tools': {
    place: 'pages',
    times: 1,
    text: (bytes) => listOf((index) => `{"name":"t${index}"}`, bytes),
  },
  'long ids': {
    place: 'id',
    times: 12,
    text: (bytes) => wrapped('"', repeated('i', bytes), '"'),
  },
  'a deep id': { place: 'rpc id', times: 1, text: (bytes) => deep(bytes / 2) },
  'an id that is an array': { place: 'rpc id', times: 1, text: () => ['[[]]'] },
  'a long id': { place: 'rpc id', times: 1, text: (bytes) => wrapped('"', repeated('i', bytes), '"') },
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
  const piece = unit.repeat(PIECE / unit.length)
  for (let sent = 0; sent < bytes; sent += piece.length) yield piece
}

function* deep(levels: number): Iterable<string> {
  yield* repeated('[', levels)
  yield* repeated(']', levels)
}
