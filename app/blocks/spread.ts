// Waits until the other gateways apply a change of the blocks, and says which do.
import { type Clock, withinLimit } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { Board, SeenReader } from './board.js'

/** The result of a change, for the operator. */
export interface Spread {
  /** Names of the gateways that apply it. */
  readonly acknowledged: readonly string[]
  /** Gateways that have not confirmed it, and for how long they have been silent. */
  readonly silent: readonly { readonly gateway: string; readonly silent_ms: number }[]
  /** The reason why no other gateway can know of it yet. */
  readonly store_error?: string
}

/** The version of a gateway that has ended. */
export const ENDED = 'ended'

const WAIT_MS = 2_000
const AGAIN_MS = 50
/** A gateway that is silent for longer may be dead, and is not waited for; after the second time it is not mentioned. */
const SILENT_MS = 8_000
const GONE_MS = 60_000

interface Spreading {
  /** The name of this gateway, which applies the change. */
  readonly name: string
  readonly clock: Pick<Clock, 'monotonic'>
  /** Brings the change to the board. Rejects if it is down. */
  exchange(): Promise<{ readonly version: string; readonly board: Board }>
}

export async function spreadOf({ name, clock, exchange }: Spreading): Promise<Spread> {
  const deadline = clock.monotonic() + WAIT_MS
  try {
    const { version, board } = await withinLimit('the store', exchange(), WAIT_MS)
    for (;;) {
      const readers = await withinLimit('the store', board.readers(), WAIT_MS)
      const present = readers.filter((one) => one.version !== ENDED && one.silentMs < GONE_MS)
      const missing = present.filter((one) => !has(one, version))
      const isOver = clock.monotonic() >= deadline || missing.every(({ silentMs }) => silentMs > SILENT_MS)
      if (isOver) return outcomeOf(present, missing)
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
    }
  } catch (error) {
    return { acknowledged: [name], silent: [], store_error: messageOf(error) }
  }
}

function outcomeOf(present: readonly SeenReader[], missing: readonly SeenReader[]): Spread {
  return {
    acknowledged: present.filter((one) => !missing.includes(one)).map(({ name }) => name),
    silent: missing.map(({ name, silentMs }) => ({ gateway: name, silent_ms: Math.round(silentMs) })),
  }
}

export function epochOf(version: string): string {
  return version.slice(0, version.lastIndexOf(':') + 1)
}

/** Whether the reader applies this version or a later one. */
function has({ version }: SeenReader, wanted: string): boolean {
  if (epochOf(version) !== epochOf(wanted)) return false
  return Number(version.slice(epochOf(version).length)) >= Number(wanted.slice(epochOf(wanted).length))
}
