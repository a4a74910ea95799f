// Stands where duplicate handling will: a call that may be a duplicate must not run twice.
import { type Call, failed, type Next, type Outcome, type Stage } from '@svc/core'

export class DedupeStage implements Stage {
  async handle(_call: Call, _next: Next): Promise<Outcome> {
    return failed('STORE_UNAVAILABLE', 'Duplicate handling is not available yet.')
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say('not available yet: every call is refused')
    return this.handle(call, next)
  }
}
