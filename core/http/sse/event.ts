// Reads the fields of an event, and replaces the data of an event (WHATWG HTML §9.2.6).

export interface SseEvent {
  /** `message` if the event names none. */
  readonly type: string
  /** Empty if the event has no data. */
  readonly data: string
  readonly id: string | null
  /** Whether it has lines of fields that the standard does not know. */
  readonly hasOtherFields: boolean
}

/** A comment and a blank line have the empty name. */
const knownFields: ReadonlySet<string> = new Set(['', 'data', 'event', 'id', 'retry'])

const lineEnd = /\r\n|\r|\n/
const lineEnds = /\r\n|\r|\n/g

/** Throws `TypeError` for bytes that are not UTF-8. */
export function readEvent(bytes: Uint8Array): SseEvent {
  let type = ''
  let id: string | null = null
  const data: string[] = []
  let hasOtherFields = false
  for (const line of linesOf(bytes)) {
    const { name, value } = fieldOf(line)
    if (name === 'data') data.push(value)
    else if (name === 'event') type = value
    else if (name === 'id' && !value.includes('\0')) id = value
    else if (!knownFields.has(name)) hasOtherFields = true
  }
  return { type: type === '' ? 'message' : type, data: data.join('\n'), id, hasOtherFields }
}

/** The event with `data` in place of its data; id, type and retry lines are unchanged. */
export function withData(bytes: Uint8Array, data: string): Uint8Array {
  const kept = linesOf(bytes).filter((line) => line !== '' && fieldOf(line).name !== 'data')
  return Buffer.from(`${[...kept, dataLines(data)].join('\n')}\n\n`)
}

/** The event with each id changed by `change`; everything else yields what it did. Throws like `readEvent`. */
export function withIds(bytes: Uint8Array, change: (id: string) => string): Uint8Array {
  let isSame = true
  const lines = linesOf(bytes).map((line) => {
    const { name, value } = fieldOf(line)
    // An empty id resets the id, and clients ignore an id with a NUL.
    if (name !== 'id' || value === '' || value.includes('\0')) return line
    isSame = false
    return `id: ${change(value)}`
  })
  return isSame ? bytes : Buffer.from(lines.join('\n'))
}

/** The event without lines of fields that the standard does not know. Throws like `readEvent`. */
export function withKnownFields(bytes: Uint8Array): Uint8Array {
  return Buffer.from(
    linesOf(bytes)
      .filter((line) => knownFields.has(fieldOf(line).name))
      .join('\n'),
  )
}

/** An event of the gateway itself. */
export function eventOf(data: string): Uint8Array {
  return Buffer.from(`event: message\n${dataLines(data)}\n\n`)
}

function dataLines(data: string): string {
  return `data: ${data.replace(lineEnds, '\ndata: ')}`
}

function linesOf(bytes: Uint8Array): string[] {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes).split(lineEnd)
}

function fieldOf(line: string): { name: string; value: string } {
  const colon = line.indexOf(':')
  if (colon === -1) return { name: line, value: '' }
  const from = line[colon + 1] === ' ' ? colon + 2 : colon + 1
  return { name: line.slice(0, colon), value: line.slice(from) }
}
