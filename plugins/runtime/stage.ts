// Stands where runtime evaluation will: a call must not pass because the runtime's verdict was not asked for.
import { type Call, failed, type Next, type Outcome, type Stage } from '@svc/core'

export class RuntimeStage implements Stage {
  async handle(_call: Call, _next: Next): Promise<Outcome> {
    return failed('RUNTIME_UNAVAILABLE', 'Runtime evaluation is not available yet.')
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say('not available yet: every call is refused')
    return this.handle(call, next)
  }
}
