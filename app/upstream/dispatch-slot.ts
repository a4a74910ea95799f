// The slot with a call's dispatcher. The endpoint that creates a call knows its upstream, so the pipeline need not
// decide it again.
import { slot } from '@svc/core'
import type { Dispatch } from '@svc/core/pipeline'

export const dispatch = slot<Dispatch>('svc-sdk/dispatch')

/** The dispatch of a pipeline's core. */
export const dispatchFromSlot: Dispatch = (call) => call.need(dispatch)(call)
