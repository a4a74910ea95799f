// Reads the newest lines of a log: from its end backward, and from a place onward as they are appended. Nothing is verified
// here; what the console shows as verified is checked with a proof.
import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** A record's line and its place. */
export interface TailLine {
  /** `<day>:<byte after the line>`. */
  readonly id: string
  readonly text: string
}

/** The place where reading continues: a daily file, and a byte at the start of a line. */
export interface TailPlace {
  readonly day: string
  readonly offset: number
}

/** The most that one read forward has. */
export const CHUNK = 1_048_576
/** The bytes that are read backward at once: lines for about a millisecond of work. */
const TURN = 65_536
/** The most bytes by which `placeBefore` is before the lines of its time. */
export const MAX_BEFORE = 2 * TURN
const idForm = /^(\d{4}-\d{2}-\d{2}):(\d{1,15})$/

export function placeOfId(id: string): TailPlace | undefined {
  const [, day, offset] = idForm.exec(id) ?? []
  return day === undefined ? undefined : { day, offset: Number(offset) }
}

/**
 * The lines before a place, by default the end of the log, from the newest backward, of at most `maxBytes`. Other work runs in
 * between.
 */
export async function* linesBackward(
  dir: string,
  maxBytes: number,
  before?: TailPlace,
): AsyncGenerator<TailLine, void, void> {
  let left = maxBytes
  for (const day of (await days(dir)).reverse()) {
    if (left <= 0) return
    if (before !== undefined && day > before.day) continue
    const whole = await sizeOf(dir, day)
    const size = day === before?.day ? Math.min(before.offset, whole) : whole
    const floor = Math.max(0, size - left)
    left -= size - floor
    let end = size
    let length = TURN
    while (end > floor) {
      const start = Math.max(floor, end - length)
      const bytes = await bytesOf(dir, day, start, end)
      // The line in which the piece begins is read with the bytes before it.
      const first = start === 0 ? 0 : bytes.indexOf(0x0a) + 1
      if (start > 0 && (first === 0 || first === bytes.length)) {
        if (start === floor) break
        length *= 2
        continue
      }
      yield* linesIn(bytes.subarray(first), { day, offset: start + first }).reverse()
      end = start + first
      length = TURN
    }
  }
}

/** The whole lines after a place, as many as one read has, and the place after them. */
export async function linesAfter(
  dir: string,
  { day, offset }: TailPlace,
): Promise<{ readonly lines: readonly TailLine[]; readonly next: TailPlace; readonly isMore: boolean }> {
  const size = await sizeOf(dir, day)
  const end = Math.min(size, offset + CHUNK)
  const bytes = end > offset ? await bytesOf(dir, day, offset, end) : Buffer.alloc(0)
  const lines = linesIn(bytes, { day, offset })
  const read = bytes.lastIndexOf(0x0a) + 1
  if (read > 0) return { lines, next: { day, offset: offset + read }, isMore: end < size }
  // The line is longer than any record of a call, and is skipped.
  if (end < size) return { lines, next: { day, offset: end }, isMore: true }
  const later = (await days(dir)).find((one) => one > day)
  return later === undefined
    ? { lines, next: { day, offset }, isMore: false }
    : { lines, next: { day: later, offset: 0 }, isMore: true }
}

/**
 * A place before the lines that were written at a time, in milliseconds since the epoch, and at most `MAX_BEFORE` before. A record has
 * the time at which its call began, so that the latest time of many lines tells when they were written.
 */
export async function placeBefore(dir: string, ms: number): Promise<TailPlace> {
  const day = new Date(ms).toISOString().slice(0, 10)
  let [start, end] = [0, await sizeOf(dir, day)]
  while (end - start > TURN) {
    const middle = start + Math.floor((end - start) / 2)
    const lines = (await bytesOf(dir, day, middle, Math.min(end, middle + TURN))).toString('latin1')
    const times = [...lines.matchAll(/"ts":"([^"]{20,30})"/g)].map(([, at = '']) => Date.parse(at))
    if (Math.max(...times.filter(Number.isFinite)) < ms) start = middle
    else end = middle
  }
  // There may be no file of the day, as retention removes them.
  if (start === 0) return { day, offset: 0 }
  return { day, offset: start + (await bytesOf(dir, day, start, start + CHUNK)).indexOf(0x0a) + 1 }
}

/** The place after the last line that is there now. */
export async function endOf(dir: string): Promise<TailPlace> {
  const day = (await days(dir)).at(-1) ?? new Date(0).toISOString().slice(0, 10)
  const size = await sizeOf(dir, day)
  const start = Math.max(0, size - CHUNK)
  const last = (await bytesOf(dir, day, start, size)).lastIndexOf(0x0a) + 1
  return { day, offset: start + last }
}

export function isBefore(a: TailPlace, b: TailPlace): boolean {
  return a.day === b.day ? a.offset < b.offset : a.day < b.day
}

function linesIn(bytes: Buffer, { day, offset }: TailPlace): TailLine[] {
  const lines: TailLine[] = []
  let from = 0
  for (let end = bytes.indexOf(0x0a, from); end >= 0; end = bytes.indexOf(0x0a, from)) {
    lines.push({ id: `${day}:${offset + end + 1}`, text: bytes.toString('utf8', from, end) })
    from = end + 1
  }
  return lines
}

async function days(dir: string): Promise<string[]> {
  const names = await readdir(dir)
  return names.flatMap((name) => /^audit-(\d{4}-\d{2}-\d{2})\.ndjson$/.exec(name)?.[1] ?? []).sort()
}

const pathOf = (dir: string, day: string) => join(dir, `audit-${day}.ndjson`)

async function sizeOf(dir: string, day: string): Promise<number> {
  try {
    return (await stat(pathOf(dir, day))).size
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 0
    throw error
  }
}

async function bytesOf(dir: string, day: string, start: number, end: number): Promise<Buffer> {
  if (end <= start) return Buffer.alloc(0)
  const handle = await open(pathOf(dir, day), 'r')
  try {
    const bytes = Buffer.allocUnsafe(end - start)
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, start)
    return bytes.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}
