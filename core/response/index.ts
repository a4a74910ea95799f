// Rewrites the responses of calls, for stages.
export { isEventStream, rewriteOutcome } from './rewrite.js'
export type { ResponseRewriter } from './rewriter.js'
export { keepShown, shownIn } from './shown.js'
