// Lets an observer see where calls wait: in which stage, and for the upstream. Without an observer nothing of this runs.
import type { Call } from '../call/call.js'
import { isPending, type MaybePromise } from '../call/maybe-promise.js'
import type { Outcome } from '../call/outcome.js'
import type { Next, Stage } from '../plugin/stage.js'
import { token } from '../plugin/tokens.js'
import type { Dispatch, PlacedStage } from './compose.js'

export interface CallObserver {
  /** Called once, before the first stage. */
  began(call: Call): void
  /**
   * A stage, or `upstream`, waited for something other than the stages inside it. Both times are those of
   * `performance.now()`. It may be called after the call has settled.
   */
  waited(call: Call, name: string, from: number, to: number): void
}

/** All of them as one; undefined without any. */
export function joinedObservers(observers: readonly CallObserver[]): CallObserver | undefined {
  if (observers.length < 2) return observers[0]
  return {
    began: (call) => {
      for (const observer of observers) observer.began(call)
    },
    waited: (call, name, from, to) => {
      for (const observer of observers) observer.waited(call, name, from, to)
    },
  }
}

/** Not bound if nothing observes the calls of the gateway. */
export const callObserver = token<CallObserver>('CallObserver')

/** Shorter waits are turns of the event loop, in milliseconds. */
const minWaitMs = 0.1

/** The stage, observed while it handles a call; the rest of the stage stays with the original. */
export function observedStage({ name, stage }: PlacedStage, observer: CallObserver): PlacedStage {
  return { name, stage: { handle: (call, next) => handled(name, stage, observer, call, next) } }
}

function handled(
  name: string,
  stage: Stage,
  observer: CallObserver,
  call: Call,
  next: Next,
): ReturnType<Stage['handle']> {
  // The part of the stage before `next()`, then the part after it. The work of one turn is not a wait.
  let began = performance.now()
  let isSameTurn = true
  let inner: ReturnType<Next> | undefined
  const end = (): void => {
    const now = performance.now()
    if (!isSameTurn && now - began >= minWaitMs) observer.waited(call, name, began, now)
  }
  const resume = (): void => {
    began = performance.now()
  }
  const observedNext: Next = () => {
    end()
    inner = next()
    if (!isSameTurn) resumeAfter(inner, resume)
    return inner
  }
  const returned = stage.handle(call, observedNext)
  isSameTurn = false
  // Most stages return what `next()` returned, and so have no part after it.
  if (returned === inner) return returned
  if (inner !== undefined) resumeAfter(inner, resume)
  if (isPending(returned)) returned.then(end, end)
  return returned
}

function resumeAfter(inner: ReturnType<Next>, resume: () => void): void {
  if (isPending(inner)) inner.then(resume, resume)
  else resume()
}

/** The dispatcher, whose wait is that for the response to begin, or to be complete if it is not a stream. */
export function observedDispatch(dispatch: Dispatch, observer: CallObserver): Dispatch {
  return (call): MaybePromise<Outcome> => {
    const began = performance.now()
    const sending = dispatch(call)
    const end = (): void => observer.waited(call, 'upstream', began, performance.now())
    if (isPending(sending)) sending.then(end, end)
    else end()
    return sending
  }
}
