// Shows how far long work has come, on standard error: a bar on a terminal, else a line every few seconds.
import type { CliIo } from './io.js'

interface Progress {
  readonly bytes: number
  readonly totalBytes: number
}

export interface ProgressDisplay {
  show(progress: Progress): void
  /** Removes the bar, before other output. */
  clear(): void
}

const BAR_CELLS = 30
const BAR_EVERY_MS = 100
const LINE_EVERY_MS = 5_000

/** `what` begins a line, such as `audit verify`. */
export function progressDisplay(io: CliIo, what: string, isQuiet = false): ProgressDisplay {
  const began = performance.now()
  const isTerminal = io.progress !== undefined
  // Work that is over before the first line has none.
  let shown = isTerminal ? Number.NEGATIVE_INFINITY : began
  return {
    show({ bytes, totalBytes }) {
      const now = performance.now()
      if (isQuiet || bytes === 0 || now - shown < (isTerminal ? BAR_EVERY_MS : LINE_EVERY_MS)) return
      shown = now
      const share = totalBytes === 0 ? 1 : bytes / totalBytes
      const rate = bytes / Math.max(now - began, 1)
      const percent = `${(share * 100).toFixed(0).padStart(3)} %`
      const left = formatDuration((totalBytes - bytes) / rate)
      const figures = `${megabytes(bytes)} of ${megabytes(totalBytes)} MB  ${megabytes(rate * 1e3)} MB/s  ${left} left`
      const bar = '\u2588'.repeat(Math.round(share * BAR_CELLS)).padEnd(BAR_CELLS, '\u2591')
      if (io.progress === undefined) io.err(`${what}: ${percent.trim()}  ${figures}\n`)
      else io.progress(`${bar} ${percent}  ${figures}`)
    },
    clear: () => isQuiet || io.progress?.(''),
  }
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0)

function formatDuration(ms: number): string {
  const seconds = Math.ceil(ms / 1e3)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)]
  const parts = hours > 0 ? [hours, minutes, seconds % 60] : [minutes, seconds % 60]
  return parts.map((part, at) => (at === 0 ? `${part}` : `${part}`.padStart(2, '0'))).join(':')
}
