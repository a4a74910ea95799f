// Tells that the disk runs low while there is still time: a full one stops every call that must be recorded.

import type { Logger, Meter } from '@svc/core'
import type { FileSystem } from '../files/file-system.js'
import { settle } from '../files/log-file.js'

const LOOK_EVERY_MS = 30_000
const MIB = 1_048_576

export interface DiskWatchParts {
  readonly dir: string
  /** Below this much free space the disk counts as low; 0: never. */
  readonly minFreeBytes: number
  readonly port: FileSystem
  readonly logger: Logger
  readonly meter: Meter
}

export interface DiskStatus {
  /** Space that a process without privileges may still use. */
  readonly freeBytes?: number
  /** Set while the disk is low. */
  readonly warning?: string
}

export class DiskWatch {
  readonly #parts: DiskWatchParts
  #status: DiskStatus = {}
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(parts: DiskWatchParts) {
    this.#parts = parts
  }

  /** As last seen. */
  get status(): DiskStatus {
    return this.#status
  }

  /** Looks now and from time to time. Resolves after the first look. */
  async start(): Promise<void> {
    if (this.#stopped) return
    this.#timer ??= setInterval(() => void this.#look(), LOOK_EVERY_MS).unref()
    await this.#look()
  }

  stop(): void {
    this.#stopped = true
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    const { port, dir, minFreeBytes, meter, logger } = this.#parts
    let freeBytes = 0
    try {
      await settle((done) =>
        port.statfs(dir, (error, stats) => {
          if (error === null) freeBytes = stats.bavail * stats.bsize
          done(error)
        }),
      )
    } catch (err) {
      logger.warn({ err, dir }, 'the free space of the disk of the log cannot be told')
      return
    }
    meter.gauge?.('svc_audit_disk_free_bytes', freeBytes)
    const isLow = freeBytes < minFreeBytes
    const wasLow = this.#status.warning !== undefined
    this.#status = isLow ? { freeBytes, warning: warningOf(freeBytes, minFreeBytes) } : { freeBytes }
    if (isLow === wasLow) return
    if (isLow) {
      meter.count('svc_audit_disk_low_total')
      logger.warn({ dir, freeBytes, minFreeBytes }, 'the disk of the log runs low')
    } else {
      logger.info({ dir, freeBytes, minFreeBytes }, 'the disk of the log has room again')
    }
  }
}

function warningOf(freeBytes: number, minFreeBytes: number): string {
  return `the disk of the log has ${mib(freeBytes)} MiB left, less than ${mib(minFreeBytes)}`
}

function mib(bytes: number): number {
  return Math.floor(bytes / MIB)
}
