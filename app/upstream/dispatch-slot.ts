// The dispatcher of one call. Whoever creates a call knows where it goes; the pipeline only calls what is there.
import { slot } from '@svc/core'
import type { Dispatch } from '@svc/core/pipeline'

export const dispatch = slot<Dispatch>('svc-sdk/dispatch')

/** For the core of a pipeline. */
export const dispatchFromSlot: Dispatch = (call) => call.need(dispatch)(call)
