// Splits the output of a process into lines, each up to a hard cap.

/** A line is longer than the cap; nothing after it can be read. */
export class LineTooLong extends Error {
  override readonly name = 'LineTooLong'
}

const NEWLINE = 0x0a
/** Some programs begin their output with it. */
const BYTE_ORDER_MARK = '\ufeff'

export class LineSplitter {
  #maxBytes: number
  #cut: boolean
  #pieces: Buffer[] = []
  #size = 0

  /** `cut`: the rest of a longer line is dropped, and the lines after it are read. */
  constructor(maxBytes: number, cut = false) {
    this.#maxBytes = maxBytes
    this.#cut = cut
  }

  /** Bytes of the line that has not ended. */
  get unfinished(): number {
    return this.#size
  }

  /** The lines that end in `chunk`, without their line ends and byte order marks. Throws `LineTooLong`. */
  *push(chunk: Buffer): Generator<string> {
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#add(chunk.subarray(start, end))
      start = end + 1
      const line = Buffer.concat(this.#pieces).toString()
      this.#pieces = []
      this.#size = 0
      yield line.slice(line.startsWith(BYTE_ORDER_MARK) ? 1 : 0, line.endsWith('\r') ? -1 : undefined)
    }
    this.#add(chunk.subarray(start))
  }

  #add(piece: Buffer): void {
    const room = this.#maxBytes - this.#size
    if (piece.byteLength > room && !this.#cut)
      throw new LineTooLong(`a line of more than ${this.#maxBytes} bytes`)
    const kept = piece.subarray(0, room)
    this.#size += kept.byteLength
    if (kept.byteLength > 0) this.#pieces.push(kept)
  }
}
