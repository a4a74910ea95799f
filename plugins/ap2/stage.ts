// Placeholder for AP2 mandate checks: it refuses every call, because an unchecked payment must not pass.
import { type Call, failed, type Next, type Outcome, type Stage } from '@svc/core'

export class Ap2Stage implements Stage {
  async handle(_call: Call, _next: Next): Promise<Outcome> {
    return failed('INTERNAL', 'AP2 mandate checks are not available yet.')
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say('not available yet: every call is refused')
    return this.handle(call, next)
  }
}
