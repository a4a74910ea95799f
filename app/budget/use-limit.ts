// Limits how many of something each key has at a time: connections of an address, calls of a tenant.
import { Tally } from '@svc/core/store'

/** The part of a socket that is used. */
interface ClosingSocket {
  once(event: 'close', listener: () => void): unknown
}

export class UseLimit {
  readonly max: number
  #used = new Tally()

  constructor(max: number) {
    this.max = max
  }

  /** False if the key has as many as it may have. */
  take(key: string): boolean {
    if (this.#used.of(key) >= this.max) return false
    this.#used.add(key)
    return true
  }

  release(key: string): void {
    this.#used.remove(key)
  }

  /** Takes one for the key until the socket closes. */
  takeWhileOpen(key: string, socket: ClosingSocket): boolean {
    const isTaken = this.take(key)
    if (isTaken) socket.once('close', () => this.release(key))
    return isTaken
  }
}
