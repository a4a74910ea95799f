// Warns when the disk has little free space, before a full one stops every call that must be recorded.

import type { Logger, Meter } from '@svc/core'
import { type FileSystem, fromCallback } from '../files/file-system.js'

const CHECK_INTERVAL_MS = 30_000
const MIB = 1_048_576

interface DiskMonitorOptions {
  readonly dir: string
  /** Free space below which the disk counts as low; 0: never. */
  readonly minFreeBytes: number
  readonly port: FileSystem
  readonly logger: Logger
  readonly meter: Meter
}

interface DiskStatus {
  /** Space that unprivileged processes can use. */
  readonly freeBytes?: number
  /** Set while the disk is low. */
  readonly warning?: string
}

export class DiskMonitor {
  readonly #options: DiskMonitorOptions
  readonly #unwatch: (() => void) | undefined
  #status: DiskStatus = {}
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  constructor(options: DiskMonitorOptions) {
    this.#options = options
    this.#unwatch = options.meter.watch?.('svc_audit_disk_free_bytes', () => this.#status.freeBytes)
  }

  /** The result of the last check. */
  get status(): DiskStatus {
    return this.#status
  }

  /** Checks now and every 30 seconds. Resolves after the first check. */
  async start(): Promise<void> {
    if (this.#stopped) return
    this.#timer ??= setInterval(() => void this.#check(), CHECK_INTERVAL_MS).unref()
    await this.#check()
  }

  stop(): void {
    this.#stopped = true
    this.#unwatch?.()
    clearInterval(this.#timer)
  }

  async #check(): Promise<void> {
    const { port, dir, minFreeBytes, meter, logger } = this.#options
    let freeBytes = 0
    try {
      await fromCallback((done) =>
        port.statfs(dir, (error, stats) => {
          if (error === null) freeBytes = stats.bavail * stats.bsize
          done(error)
        }),
      )
    } catch (err) {
      logger.warn({ err, dir }, "the free space of the log's disk cannot be read")
      return
    }
    const isLow = freeBytes < minFreeBytes
    const wasLow = this.#status.warning !== undefined
    const [free, least] = [freeBytes, minFreeBytes].map((bytes) => Math.floor(bytes / MIB))
    const warning = `the disk of the log has ${free} MiB left, less than ${least}`
    this.#status = isLow ? { freeBytes, warning } : { freeBytes }
    if (isLow === wasLow) return
    if (isLow) {
      meter.count('svc_audit_disk_low_total')
      logger.warn({ dir, freeBytes, minFreeBytes }, "the log's disk is low on space")
    } else {
      logger.info({ dir, freeBytes, minFreeBytes }, "the log's disk has enough space again")
    }
  }
}
