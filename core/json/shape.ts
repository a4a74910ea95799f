// The members of an object in canonical order. A gateway serialises few shapes many times, so the order and the quoted
// names of recent shapes are cached: a hit costs one comparison per member.

export interface ObjectShape {
  /** Own enumerable string keys, sorted by UTF-16 code units (RFC 8785 §3.2.3). */
  readonly keys: readonly string[]
  /** `"key":`, quoted, as bytes, for each of `keys`. */
  readonly labels: readonly Uint8Array[]
  /** `"key":null`, likewise. */
  readonly nullMembers: readonly Uint8Array[]
  /** The positions of names that were looked up, present or not. */
  places: Map<string, number> | undefined
}

interface Known extends ObjectShape {
  readonly given: readonly string[]
}

const SLOTS = 512
// Limits the memory of the cache to SLOTS * MAX_KEYS * MAX_KEY_LENGTH characters.
const MAX_KEYS = 48
const MAX_KEY_LENGTH = 48

const EMPTY: ObjectShape = { keys: [], labels: [], nullMembers: [], places: undefined }

const known: (Known | undefined)[] = new Array<Known | undefined>(SLOTS).fill(undefined)

export function sortedShape(object: object, quote: (key: string) => string): ObjectShape {
  const given = Object.keys(object)
  const count = given.length
  if (count === 0) return EMPTY
  if (count > MAX_KEYS) return order(given, quote)
  const slot = slotOf(given, count)
  const candidate = known[slot]
  if (candidate !== undefined && candidate.given.length === count) {
    let i = 0
    while (i < count && candidate.given[i] === given[i]) i++
    if (i === count) return candidate
  }
  const shape = order(given, quote)
  if (given.every((key) => key.length <= MAX_KEY_LENGTH)) known[slot] = { given, ...shape }
  return shape
}

/** In place of an index: the object has a member of the name. */
export const TAKEN = -1

/**
 * The index at which a member of the name would stand among the keys, or `TAKEN`. The result is cached, so `name` must be one of
 * a few.
 */
export function placeBeside(shape: ObjectShape, name: string): number {
  shape.places ??= new Map()
  let place = shape.places.get(name)
  if (place === undefined) {
    const found = shape.keys.findIndex((key) => key >= name)
    place = found === -1 ? shape.keys.length : shape.keys[found] === name ? TAKEN : found
    shape.places.set(name, place)
  }
  return place
}

/** A cheap hash of the shape; a collision costs only a miss. */
function slotOf(given: readonly string[], count: number): number {
  const first = given[0] as string
  const last = given[count - 1] as string
  const mix =
    count * 31 +
    first.length * 7 +
    last.length * 131 +
    first.charCodeAt(first.length - 1) * 17 +
    last.charCodeAt(0) * 61
  // charCodeAt of an empty key is NaN, which the bit operation turns into slot 0.
  return mix & (SLOTS - 1)
}

function order(given: readonly string[], quote: (key: string) => string): ObjectShape {
  let sorted = true
  for (let i = 1; i < given.length && sorted; i++) sorted = (given[i - 1] as string) < (given[i] as string)
  const keys = sorted ? given : [...given].sort()
  const texts = keys.map((key) => `${quote(key)}:`)
  const labels = texts.map((text) => encoder.encode(text))
  const nullMembers = texts.map((text) => encoder.encode(`${text}null`))
  return { keys, labels, nullMembers, places: undefined }
}

const encoder = new TextEncoder()
