// A note in the lock file that its holder is between the daily log and the agents' files. Whoever takes
// the lock next and finds it knows that the holder died there, and which day to complete.

import type { FileSystem } from '../files/file-system.js'

const SIZE = 16
const CLEAR = Buffer.from('-'.padEnd(SIZE - 1).concat('\n'))

export class SectionMark {
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

  /** The day of a holder that died, if one did. */
  left(): string | undefined {
    const got = this.#port.readSync(this.#fd, this.#read, 0, SIZE, 0)
    if (got === 0 || this.#read[0] === CLEAR[0]) return undefined
    return /^\d{4}-\d\d-\d\d/.exec(this.#read.toString('latin1', 0, got))?.[0]
  }
}
