// Splits an event stream into its events without changing a byte, so that other events are forwarded unchanged
// (WHATWG HTML §9.2.5).

/** One event with its closing blank line, or bytes between events. */
export interface SseBlock {
  readonly bytes: Uint8Array
  /** False for comments and line ends between events. */
  readonly isEvent: boolean
}

/** An event exceeds the maximum size. */
export class SseOverflow extends Error {
  override readonly name = 'SseOverflow'
}

/** Maximum number of lines of one event: each line is an object while the event is read. */
const MAX_LINES = 262_144

/** The byte order mark. A stream may begin with it; elsewhere it is part of a field. */
const BYTE_ORDER_MARK = Buffer.from('\ufeff')

const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a

export class SseSplitter {
  #maxBytes: number
  #pending: Uint8Array[] = []
  #pendingBytes = 0
  /** Bytes of the current line. */
  #lineBytes = 0
  /** Lines of the current event. */
  #lines = 0
  #hasField = false
  #afterCr = false
  /** Bytes at the beginning of the stream that may be the mark; undefined once that is decided. */
  #mark: Uint8Array | undefined = new Uint8Array()

  /** @param maxBytes limit of one event, line ends included */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** The blocks that `chunk` completes. A comment is complete at the end of its line, as it keeps the connection alive. */
  *push(given: Uint8Array): Generator<SseBlock> {
    const chunk = this.#mark === undefined ? given : this.#withoutMark(this.#mark, given)
    let start = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (byte !== LF && byte !== CR) {
        if (this.#lineBytes === 0 && byte !== COLON) this.#hasField = true
        this.#lineBytes++
        this.#afterCr = false
        continue
      }
      const endsCrLf = byte === LF && this.#afterCr
      if (byte === CR && chunk[at + 1] === LF) at++
      this.#afterCr = byte === CR && chunk[at] === CR
      const isBlank = this.#lineBytes === 0 && !endsCrLf
      this.#lineBytes = 0
      if (!isBlank && this.#hasField) {
        if (++this.#lines > MAX_LINES) throw new SseOverflow(`an event has more than ${MAX_LINES} lines`)
        continue
      }
      this.#lines = 0
      const isEvent = this.#hasField
      this.#hasField = false
      yield { bytes: this.#take(chunk.subarray(start, at + 1)), isEvent }
      start = at + 1
    }
    if (start < chunk.length) this.#hold(chunk.subarray(start))
  }

  /** Bytes of an incomplete event. At the end of the stream it is dropped, as clients must drop it. */
  get unfinished(): number {
    return this.#pendingBytes
  }

  /**
   * The mark is removed, because the client may get other bytes before it: a comment, or an event that a stage adds.
   */
  #withoutMark(before: Uint8Array, given: Uint8Array): Uint8Array {
    const begin = before.length === 0 ? given : Buffer.concat([before, given])
    const length = Math.min(begin.length, BYTE_ORDER_MARK.length)
    const isMark = BYTE_ORDER_MARK.subarray(0, length).equals(begin.subarray(0, length))
    if (isMark && length < BYTE_ORDER_MARK.length) {
      this.#mark = begin
      return new Uint8Array()
    }
    this.#mark = undefined
    return isMark ? begin.subarray(length) : begin
  }

  #hold(piece: Uint8Array): void {
    this.#check(piece)
    this.#pending.push(piece)
    this.#pendingBytes += piece.length
  }

  #take(last: Uint8Array): Uint8Array {
    this.#check(last)
    if (this.#pending.length === 0) return last
    const bytes = Buffer.concat([...this.#pending, last])
    this.#pending = []
    this.#pendingBytes = 0
    return bytes
  }

  #check(more: Uint8Array): void {
    if (this.#pendingBytes + more.length <= this.#maxBytes) return
    throw new SseOverflow(`an event is over ${this.#maxBytes} bytes`)
  }
}
