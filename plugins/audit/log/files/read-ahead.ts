// Reads parts of a file, and reads ahead if little is requested: a system call for each of many small ranges costs
// more than the work on them.

import { readSync } from 'node:fs'

const WINDOW_BYTES = 65_536

export class ReadAhead {
  readonly #fd: number
  readonly #window = Buffer.allocUnsafeSlow(WINDOW_BYTES)
  #start = 0
  #filled = 0

  constructor(fd: number) {
    this.#fd = fd
  }

  /** Returns the number of bytes that were read, as `readSync` does. */
  read(target: Buffer, at: number, length: number, position: number): number {
    if (length >= WINDOW_BYTES) return readSync(this.#fd, target, at, length, position)
    if (position < this.#start || position + length > this.#start + this.#filled) {
      this.#filled = readSync(this.#fd, this.#window, 0, WINDOW_BYTES, position)
      this.#start = position
    }
    const offset = position - this.#start
    return this.#window.copy(target, at, offset, Math.min(offset + length, this.#filled))
  }
}
