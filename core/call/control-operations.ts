// Names of the operations on a call that only its creator, the pipeline and the dispatcher have. They are symbols, so that
// a stage in JavaScript does not meet them on the object that it shares with those: it could forge a record.

const name = (operation: string): string => `svc:call/1/${operation}`

/** Adds what is only known later: the body names the tool, the server its version. */
export const refineTarget: unique symbol = Symbol.for(name('refineTarget'))
/** Replaces the trace, as the body may name one to continue. */
export const replaceTrace: unique symbol = Symbol.for(name('replaceTrace'))
/** Applies the rules on references of another call of the same caller, which this call stands for. */
export const takeReferenceRules: unique symbol = Symbol.for(name('takeReferenceRules'))
/** Counts a repetition by the dispatcher. */
export const countRetry: unique symbol = Symbol.for(name('countRetry'))
/** Begins the dispatch; returns the denial by a finding, if any. Throws the second time. */
export const beginDispatch: unique symbol = Symbol.for(name('beginDispatch'))
/** Passes the outcome of the dispatcher. A call that it completes without stating more was sent. */
export const endDispatch: unique symbol = Symbol.for(name('endDispatch'))
/** Keeps the name of the stage that ended the call without those inside it; the first one stays. */
export const endAt: unique symbol = Symbol.for(name('endAt'))
/** The outcome of the part of the pipeline that ended last, so that the stage outside it need not wait again. */
export const lastOutcome: unique symbol = Symbol.for(name('lastOutcome'))
/** The promise that had it. */
export const lastPromise: unique symbol = Symbol.for(name('lastPromise'))
/** Whether further stages must not run, or not as usual: the call has aborted or settled. */
export const isStopped: unique symbol = Symbol.for(name('isStopped'))
/** Whether there are findings, so that each outcome is looked at. */
export const hasFindings: unique symbol = Symbol.for(name('hasFindings'))
/** Notifies a watcher of interruptions from now on, and at once of earlier ones. There is one watcher at a time. */
export const watchCall: unique symbol = Symbol.for(name('watchCall'))
/** Releases every hold of a call that was not sent; errors are thrown together. */
export const releaseHolds: unique symbol = Symbol.for(name('releaseHolds'))
/**
 * Runs every settle handler even if another fails, so that no failure of a stage prevents the record; after the first
 * failure `error` is its code. Rejects with that failure, so that the response is withheld.
 */
export const settle: unique symbol = Symbol.for(name('settle'))
