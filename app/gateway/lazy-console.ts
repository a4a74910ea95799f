// Loads the console with its first request, as most gateways run without anybody looking at it.
import { type MaybePromise, resolve, tokens } from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import type { AdminConsole } from '../admin/session.js'
import type { SessionBinding } from '../mcp/session-binding.js'
import type { SharedState } from '../mcp/shared-state.js'

/** `binding` has the key from which that of its sessions is derived, so that all workers have the same. */
export function lazyConsole(
  bindings: DependencyContainer,
  state: SharedState,
  binding: () => MaybePromise<SessionBinding>,
): () => Promise<AdminConsole> {
  let opened: Promise<AdminConsole> | undefined
  const open = async (): Promise<AdminConsole> => {
    const { Console } = await import('../console/console.js')
    const key = (await binding()).deriveKey('console session')
    const clock = resolve(bindings, tokens.Clock)
    const ended = state.map('console-ended', Console.endedBounds)
    return new Console({ key, clock, ended, used: state.map('console-proofs', Console.usedBounds) })
  }
  return () => {
    opened ??= open().catch((error: unknown) => {
      // The next request tries again.
      opened = undefined
      throw error
    })
    return opened
  }
}
