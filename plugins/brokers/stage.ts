// Stands where credential injection will: a call must not go out without the credential it was to carry.
import { type Call, failed, type Next, type Outcome, type Stage } from '@svc/core'

export class BrokersStage implements Stage {
  async handle(_call: Call, _next: Next): Promise<Outcome> {
    return failed('BROKER_UNAVAILABLE', 'Credential injection is not available yet.')
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say('not available yet: every call is refused')
    return this.handle(call, next)
  }
}
