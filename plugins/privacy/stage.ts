// Stands where privacy controls will: a call whose identities ought to be redacted must not be recorded in full.
import { type Call, failed, type Next, type Outcome, type Stage } from '@svc/core'

export class PrivacyStage implements Stage {
  async handle(_call: Call, _next: Next): Promise<Outcome> {
    return failed('INTERNAL', 'Privacy controls are not available yet.')
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say('not available yet: every call is refused')
    return this.handle(call, next)
  }
}
