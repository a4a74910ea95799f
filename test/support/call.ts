// The call of this project's tests of single stages: `echo@1.0.0` on server `files`.
import { type Call, type Finding, type Identity, identity } from '@svc/core'
import { type CallControl, isCallControl } from '@svc/core/pipeline'
import { fakeCallControl } from 'svc-sdk/internal/testing/call'
import type { FakeCall } from 'svc-sdk/testing'

export interface CallOverrides extends FakeCall {
  /** Sets the identity: of tenant `acme`, authenticated and without roles, unless given. */
  readonly caller?: Partial<Identity>
  readonly findings?: readonly Finding[]
}

export function makeCall({ caller, findings = [], ...overrides }: CallOverrides = {}): Call {
  const call = fakeCallControl({ server: 'files', tool: 'echo', ...overrides })
  if (caller !== undefined) call.set(identity, { tenant: 'acme', authenticated: true, roles: [], ...caller })
  for (const finding of findings) call.addFinding(finding)
  return call
}

/** The call as a pipeline takes it. */
export function controlOf(call: Call): CallControl {
  if (!isCallControl(call)) throw new Error('the call is not one of core')
  return call
}
