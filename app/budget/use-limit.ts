// Limits how many of something each key has at a time: connections of an address, calls of a tenant.
import { after, type MaybePromise } from '@svc/core'
import { Tally } from '@svc/core/store'

export interface UseLimit {
  readonly max: number
  /** False if the key has as many as it may have. Only processes that share the limit have to wait for the result. */
  take(key: string): MaybePromise<boolean>
  release(key: string): void
}

/** Creates the limit of this name. The workers of one gateway share the limits of the same name. */
export type CreateUseLimit = (name: string, max: number) => UseLimit

export const limitInProcess: CreateUseLimit = (_name, max) => {
  const used = new Tally()
  return {
    max,
    take(key) {
      if (used.of(key) >= max) return false
      used.add(key)
      return true
    },
    release: (key) => used.remove(key),
  }
}

/** The part of a socket that is used. */
interface ClosingSocket {
  once(event: 'close', listener: () => void): unknown
}

/** Takes one for the key until the socket closes. */
export function takeWhileOpen(limit: UseLimit, key: string, socket: ClosingSocket): MaybePromise<boolean> {
  let isOpen = true
  let isTaken = false
  socket.once('close', () => {
    isOpen = false
    if (isTaken) limit.release(key)
  })
  return after(limit.take(key), (taken) => {
    isTaken = taken
    if (taken && !isOpen) limit.release(key)
    return taken
  })
}
