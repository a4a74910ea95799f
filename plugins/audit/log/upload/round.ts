// One upload round: sends the new ranges of the files that were found. Ranges are prepared in small groups, so
// that one save of the state covers many files and still happens before any of their bytes are sent.

import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '../format/errors.js'
import type { ControlPlane } from './control-plane.js'
import { asUploadError, UploadError } from './error.js'
import { bytesOf, fixedRange, isLineStart, wholeEntries, wholeLines } from './range-reader.js'
import { type FoundFile, objectKey, type Range, type UploadSource } from './source.js'
import type { UploadState } from './state-file.js'
import type { UploadThrottle } from './throttle.js'

const GROUP_FILES = 32
const MAX_CONCURRENT = 4

interface RoundOptions {
  readonly dir: string
  readonly state: UploadState
  readonly controlPlane: ControlPlane
  /** Maximum bytes of one object, unless a line is longer. */
  readonly rangeBytes: number
  readonly throttle: UploadThrottle
  /** Whether a file is uploaded up to its found size and not further. */
  readonly isBounded: boolean
  /** Sizes read under the lock, without partly written batches; undefined for a file not to be uploaded now. */
  sizes(sources: readonly UploadSource[]): Promise<readonly (number | undefined)[]>
  /** Called for each stored range. */
  onUploaded(bytes: number): void
  /** Called for each failure; a file with a final failure is skipped from then on. */
  onFailure(error: UploadError, source?: UploadSource): void
}

interface PreparedRange {
  /** The file as found at the start of the round. */
  readonly found: FoundFile
  readonly file: number
  readonly range: Range
}

/**
 * Uploads the new bytes of `files`. Stops early when every other file would fail too.
 *
 * @returns whether it reached the end.
 */
export async function uploadRound(
  options: RoundOptions,
  files: readonly FoundFile[],
  signal: AbortSignal,
): Promise<boolean> {
  const { state } = options
  const queue = files.filter(
    ({ source, size }) => size !== state.offsetOf(source.path) || state.pendingOf(source.path),
  )
  let shouldContinue = true
  while (shouldContinue && queue.length > 0 && !signal.aborted) {
    const prepared = await prepareGroup(options, queue.splice(0, GROUP_FILES))
    try {
      await state.save()
      shouldContinue = await putAll(options, prepared, queue, signal)
    } finally {
      for (const { file } of prepared) closeSync(file)
    }
  }
  await state.save()
  return shouldContinue && !signal.aborted
}

async function prepareGroup(options: RoundOptions, files: readonly FoundFile[]): Promise<PreparedRange[]> {
  const sizes = await options.sizes(files.map(({ source }) => source))
  const prepared: PreparedRange[] = []
  for (const [i, found] of files.entries()) {
    const { source } = found
    const current = sizes[i]
    if (current === undefined) continue
    const size = options.isBounded ? Math.min(current, found.size) : current
    try {
      const one = await prepareRange(options, found, size)
      if (one !== undefined) prepared.push(one)
    } catch (error) {
      // ENOENT: retention or an operator has removed it.
      if (systemCode(error) !== 'ENOENT') options.onFailure(asUploadError(error, source.path), source)
    }
  }
  return prepared
}

async function prepareRange(
  options: RoundOptions,
  found: FoundFile,
  size: number,
): Promise<PreparedRange | undefined> {
  const { state } = options
  const { source } = found
  const { path } = source
  const offset = state.offsetOf(path)
  const pending = state.pendingOf(path)
  const file = openSync(join(options.dir, path), 'r')
  let isPrepared = false
  try {
    const isLines = source.entryBytes === undefined
    if (size < (pending ?? offset) || (isLines && !isLineStart(file, offset))) {
      throw new UploadError(
        'upload_file',
        `${path} has ${size} bytes and no longer holds the ${pending ?? offset} that were uploaded or started: ` +
          'it was cut or replaced, and nothing more of it is uploaded',
        { scope: 'file' },
      )
    }
    // Only durable bytes are uploaded.
    fdatasyncSync(file)
    const { rangeBytes: limit, throttle } = options
    const place = { start: offset, size, limit }
    const range =
      pending !== undefined
        ? await fixedRange(file, offset, pending, throttle)
        : source.entryBytes === undefined
          ? await wholeLines(file, place, throttle)
          : await wholeEntries(file, place, source.entryBytes, throttle)
    if (range === undefined) return undefined
    if (pending === undefined) state.begin(path, range.end)
    isPrepared = true
    return { found, file, range }
  } finally {
    if (!isPrepared) closeSync(file)
  }
}

/**
 * Returns whether the round should continue. A file returns to the queue until it is uploaded up to the size that
 * the round found: a file that grows faster than it is uploaded must not delay the others or retention.
 */
async function putAll(
  options: RoundOptions,
  prepared: readonly PreparedRange[],
  queue: FoundFile[],
  signal: AbortSignal,
): Promise<boolean> {
  const waiting = [...prepared]
  let shouldContinue = true
  const worker = async () => {
    for (let one = waiting.shift(); one !== undefined && shouldContinue; one = waiting.shift()) {
      const { range } = one
      const { source, size } = one.found
      try {
        await put(options, one, signal)
        options.state.finish(source.path, range.end)
        options.onUploaded(range.end - range.start)
        if (range.end < size) queue.push(one.found)
      } catch (error) {
        const failure = asUploadError(error, source.path)
        // A failure of scope `all` is reported once, however many uploads meet it.
        if (failure.scope === 'file' || shouldContinue) options.onFailure(failure, source)
        if (failure.scope === 'all') shouldContinue = false
      }
    }
  }
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, worker))
  return shouldContinue
}

async function put(
  { controlPlane, throttle }: RoundOptions,
  { found: { source }, file, range }: PreparedRange,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted()
  const key = objectKey(await controlPlane.metadata(signal), source, range)
  const contentLength = range.end - range.start
  const { mode, date } = source
  const checksumSha256 = Buffer.from(range.sha256, 'hex').toString('base64')
  const target = await controlPlane.uploadUrl({ key, mode, date, contentLength, checksumSha256 }, signal)
  await controlPlane.put(target, contentLength, bytesOf(file, range, throttle), signal)
}
