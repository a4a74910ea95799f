import { reasons, verdict } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import fc from 'fast-check'
import { StageRig, send } from '../../support/stage-rig.js'

async function effectOf(section: object, reason: string): Promise<string> {
  const { call } = await send(new StageRig().create(enforcementPlugin, section))
  return call.need(verdict).effectOf(reason)
}

describe('enforcement: effects', () => {
  const cases: [section: object, reason: string, effect: string][] = [
    [{}, 'anything', 'deny'],
    [{ mode: 'observe' }, 'anything', 'would_deny'],
    [{ deny_on: [] }, 'tool_not_in_allowlist', 'reported'],
    [{ mode: 'observe', deny_on: [] }, 'tool_not_in_allowlist', 'reported'],
    [{ deny_on: ['version_unpinned'] }, 'version_unpinned', 'deny'],
    [{ mode: 'observe', deny_on: ['version_unpinned'] }, 'version_unpinned', 'would_deny'],
    [{ mode: 'observe', deny_on: ['version_unpinned'] }, 'payload_too_large', 'reported'],
    [{ deny_on: ['tool_not_in_allowlist'] }, 'tool_in_denylist', 'deny'],
    [{ deny_on: ['tool_in_denylist'] }, 'tool_in_denylist', 'deny'],
    [{ deny_on: ['tool_in_denylist'] }, 'tool_not_in_allowlist', 'reported'],
    [{ deny_on: ['idempotency_missing'] }, 'missing_idempotency_for_side_effect', 'deny'],
    [{ deny_on: ['missing_idempotency_for_side_effect'] }, 'idempotency_missing', 'deny'],
    [{ deny_on: ['of_a_custom_stage'] }, 'of_a_custom_stage', 'deny'],
  ]
  for (const [section, reason, effect] of cases) {
    it(`${JSON.stringify(section)} makes ${reason} ${effect}`, async () => {
      expect(await effectOf(section, reason)).to.equal(effect)
    })
  }

  it('never denies in observe mode', async () => {
    const token = fc.constantFrom(...reasons, 'idempotency_missing', 'ap2_expired')
    await fc.assert(
      fc.asyncProperty(fc.option(fc.array(token), { nil: undefined }), token, async (denyOn, reason) => {
        const section = { mode: 'observe', ...(denyOn === undefined ? {} : { deny_on: denyOn }) }
        expect(await effectOf(section, reason)).to.be.oneOf(['would_deny', 'reported'])
      }),
    )
  })
})
