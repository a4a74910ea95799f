// A board for a gateway that shares no store: it lives as long as the process.
import { randomUUID } from 'node:crypto'
import type { Board, BoardEntry, BoardReader, BoardState, SeenReader } from '../plugin/board.js'
import type { Clock } from '../plugin/tokens.js'

export class MemoryBoard implements Board {
  #clock: Pick<Clock, 'monotonic'>
  #epoch = randomUUID()
  #count = 0
  #entries = new Map<string, { readonly value: string; readonly end: number }>()
  #readers = new Map<string, BoardReader & { readonly at: number }>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  async read(known: string): Promise<BoardState> {
    const now = this.#clock.monotonic()
    const version = this.#count === 0 ? '' : this.#version
    if (version === known) return { version, entries: undefined }
    const entries = [...this.#entries].map(([id, { value, end }]): BoardEntry => {
      return { id, value, leftMs: end - now }
    })
    return { version, entries }
  }

  async seen(reader: BoardReader): Promise<void> {
    this.#readers.set(reader.id, { ...reader, at: this.#clock.monotonic() })
  }

  async readers(): Promise<SeenReader[]> {
    const now = this.#clock.monotonic()
    return [...this.#readers.values()].map(({ at, ...reader }) => ({ ...reader, silentMs: now - at }))
  }

  async put(id: string, value: string, ttlMs: number): Promise<string> {
    this.#entries.set(id, { value, end: this.#clock.monotonic() + ttlMs })
    this.#count++
    return this.#version
  }

  async remove(id: string): Promise<string | undefined> {
    if (!this.#entries.delete(id)) return undefined
    this.#count++
    return this.#version
  }

  close(): void {
    this.#entries.clear()
  }

  get #version(): string {
    return `${this.#epoch}:${this.#count}`
  }
}
