// Marks in the lock file that its holder is writing the daily log and the agent files of a day. A process that
// takes the lock and finds the mark knows that the last holder died between the two.

import type { FileSystem } from '../files/file-system.js'

const SIZE = 16
const CLEAR = Buffer.from('-'.padEnd(SIZE - 1).concat('\n'))

export class DirtyMarker {
  readonly #port: FileSystem
  readonly #fd: number
  readonly #read = Buffer.alloc(SIZE)

  constructor(fd: number, port: FileSystem) {
    this.#fd = fd
    this.#port = port
  }

  set(day: string): void {
    this.#port.writeSync(this.#fd, Buffer.from(day.padEnd(SIZE - 1).concat('\n')), 0, SIZE, 0)
  }

  clear(): void {
    this.#port.writeSync(this.#fd, CLEAR, 0, SIZE, 0)
  }

  /** The day that a holder left marked when it died. */
  dirtyDay(): string | undefined {
    const got = this.#port.readSync(this.#fd, this.#read, 0, SIZE, 0)
    if (got === 0 || this.#read[0] === CLEAR[0]) return undefined
    return /^\d{4}-\d\d-\d\d/.exec(this.#read.toString('latin1', 0, got))?.[0]
  }
}
