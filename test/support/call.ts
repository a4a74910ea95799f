// The call of this project's tests of single stages: `echo@1.0.0` on server `files`.
import { type Call, type Finding, type Identity, identity } from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { fakeCallControl } from 'svc-sdk/internal/testing/call'
import type { FakeCall } from 'svc-sdk/testing'

export interface CallOverrides extends FakeCall {
  /** Sets the identity: of tenant `acme`, authenticated and without roles, unless given. */
  readonly caller?: Partial<Identity>
  readonly findings?: readonly Finding[]
}

export function makeCall({ caller, findings = [], ...overrides }: CallOverrides = {}): Call {
  const call = kept(fakeCallControl({ server: 'files', tool: 'echo', ...overrides }))
  if (caller !== undefined) call.set(identity, { tenant: 'acme', authenticated: true, roles: [], ...caller })
  for (const finding of findings) call.addFinding(finding)
  return call
}

const controls = new WeakMap<Call, CallControl>()

/** The call, whose control `controlOf` then knows. */
export function kept(control: CallControl): Call {
  controls.set(control.call, control)
  return control.call
}

/** The control of a call that `makeCall` or `kept` returned. */
export function controlOf(call: Call): CallControl {
  const control = controls.get(call)
  if (control === undefined) throw new Error('the call is not kept')
  return control
}
