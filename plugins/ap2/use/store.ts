// Where used mandates are kept: in the store of `dedupe`, and without that section in one like it.
import { type DedupeStore, type PluginContext, resolve, resolveOptional, token, tokens } from '@svc/core'
import type { StoreResource } from '@svc/core/store'

/** Opens a store like that of a `dedupe` section with its defaults. Bound by the gateway. */
export const usedMandateStore =
  token<(context: PluginContext) => StoreResource<DedupeStore>>('ap2/UsedMandateStore')

export interface UseStore {
  /** Resolved during calls: the store of `dedupe` runs from its stage's start on. */
  running(): DedupeStore
  /** What this stage has to start and stop itself. */
  readonly resource: StoreResource<DedupeStore> | undefined
}

export function useStore(context: PluginContext): UseStore {
  const { container, facts } = context
  if (facts.hasDedupe === true) {
    const store = resolve(container, tokens.DedupeStore)
    return { running: () => store, resource: undefined }
  }
  const resource = resolveOptional(container, usedMandateStore)?.(context)
  const running = (): DedupeStore => {
    if (resource === undefined) throw new Error('there is no store for used mandates')
    return resource.running
  }
  return { running, resource }
}
