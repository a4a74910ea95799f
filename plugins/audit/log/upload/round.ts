// One round of uploading: what is new in the files that were found, range by range. Ranges are begun in
// small groups, so that the state is saved once for many files and yet before any of their bytes leave.

import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { systemCode } from '../format/errors.js'
import type { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import { bytesOf, fixedRange, isLineStart, wholeLines } from './range-reader.js'
import type { FoundFile } from './scan.js'
import { objectKey, type Range, type Source } from './source.js'
import type { UploadState } from './state-file.js'
import type { Pace } from './throttle.js'

const GROUP = 32
const AT_ONCE = 4

export interface RoundParts {
  readonly dir: string
  readonly state: UploadState
  readonly controlPlane: ControlPlane
  /** Most bytes of one object, unless a line is longer. */
  readonly rangeBytes: number
  readonly pace: Pace
  /** Sizes at a moment when no batch is half written; undefined for a file not to be uploaded now. */
  sizes(sources: readonly Source[]): Promise<readonly (number | undefined)[]>
  /** Called for each range that the store has. */
  onUploaded(bytes: number): void
  /** Called for each failure; a file whose failure is final is left out from then on. */
  onFailure(error: UploadError, source?: Source): void
}

interface Begun {
  /** As the round found it. */
  readonly found: FoundFile
  readonly file: number
  readonly range: Range
}

/** Uploads what is new in `files`. Ends early when no file would fare better than the one that failed. */
export async function uploadRound(
  parts: RoundParts,
  files: readonly FoundFile[],
  signal: AbortSignal,
): Promise<void> {
  const { state } = parts
  const queue = files.filter(
    ({ source, size }) => size !== state.offsetOf(source.path) || state.pendingOf(source.path),
  )
  let goesOn = true
  while (goesOn && queue.length > 0 && !signal.aborted) {
    const begun = await begin(parts, queue.splice(0, GROUP))
    try {
      state.save()
      goesOn = await putAll(parts, begun, queue, signal)
    } finally {
      for (const { file } of begun) closeSync(file)
    }
  }
  state.save()
}

async function begin(parts: RoundParts, files: readonly FoundFile[]): Promise<Begun[]> {
  const sizes = await parts.sizes(files.map(({ source }) => source))
  const begun: Begun[] = []
  for (const [i, found] of files.entries()) {
    const { source } = found
    const size = sizes[i]
    if (size === undefined) continue
    try {
      const one = await beginOne(parts, found, size)
      if (one !== undefined) begun.push(one)
    } catch (error) {
      // Retention or an operator has just removed it.
      if (systemCode(error) !== 'ENOENT') parts.onFailure(asUploadError(error, source), source)
    }
  }
  return begun
}

async function beginOne(parts: RoundParts, found: FoundFile, size: number): Promise<Begun | undefined> {
  const { state } = parts
  const { source } = found
  const { path } = source
  const offset = state.offsetOf(path)
  const pending = state.pendingOf(path)
  const file = openSync(join(parts.dir, path), 'r')
  let isBegun = false
  try {
    if (size < (pending ?? offset) || !isLineStart(file, offset)) {
      throw new UploadError(
        'upload_file',
        `${path} has ${size} bytes and no longer holds the ${pending ?? offset} that were uploaded or begun: ` +
          'it was cut or replaced, and nothing more of it is uploaded',
        { reach: 'file' },
      )
    }
    // What the power could still take from the disk must not stand in the store.
    fdatasyncSync(file)
    const range =
      pending === undefined
        ? await wholeLines(file, { start: offset, size, limit: parts.rangeBytes }, parts.pace)
        : await fixedRange(file, offset, pending, parts.pace)
    if (range === undefined) return undefined
    if (pending === undefined) state.begin(path, range.end)
    isBegun = true
    return { found, file, range }
  } finally {
    if (!isBegun) closeSync(file)
  }
}

/**
 * Whether the round should go on. Files come back to the queue until they are uploaded as far as the round found
 * them: one that grows faster than it is uploaded must keep neither the others waiting nor retention.
 */
async function putAll(
  parts: RoundParts,
  begun: readonly Begun[],
  queue: FoundFile[],
  signal: AbortSignal,
): Promise<boolean> {
  const waiting = [...begun]
  let goesOn = true
  const lane = async () => {
    for (let one = waiting.shift(); one !== undefined && goesOn; one = waiting.shift()) {
      const { range } = one
      const { source, size } = one.found
      try {
        await put(parts, one, signal)
        parts.state.finish(source.path, range.end)
        parts.onUploaded(range.end - range.start)
        if (range.end < size) queue.push(one.found)
      } catch (error) {
        const failure = asUploadError(error, source)
        // What is wrong for all is told once, however many met it.
        if (failure.reach === 'file' || goesOn) parts.onFailure(failure, source)
        if (failure.reach === 'all') goesOn = false
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return goesOn
}

async function put(
  { controlPlane, pace }: RoundParts,
  { found: { source }, file, range }: Begun,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted()
  const key = objectKey(await controlPlane.metadata(signal), source, range)
  const contentLength = range.end - range.start
  const { mode, date } = source
  const target = await controlPlane.uploadUrl({ key, mode, date, contentLength }, signal)
  await controlPlane.put(target, contentLength, bytesOf(file, range, pace), signal)
}

function asUploadError(error: unknown, { path }: Source): UploadError {
  if (error instanceof UploadError) return error
  return new UploadError('upload_failed', `uploading ${path} failed: ${messageOf(error)}`, {
    reach: 'file',
    cause: error,
  })
}
