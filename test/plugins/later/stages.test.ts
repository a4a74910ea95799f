import type { Plugin } from '@svc/core'
import { ap2Plugin } from '@svc/plugin-ap2'
import { expect } from 'chai'
import { explain, refusal, StageRig, send } from '../../support/stage-rig.js'

/** Each with a section the contract allows, and with one it does not. */
const later: readonly (readonly [Plugin, string, object, object])[] = [
  [
    ap2Plugin,
    'INTERNAL',
    { enabled: true, headers: { intent: 'x-ap2-intent' }, mode: '', trust: { clockSkewSec: 5 } },
    { mode: 'some' },
  ],
]

for (const [plugin, code, section, wrong] of later) {
  describe(`the ${plugin.name} plugin, until its release`, () => {
    it('knows its section and marks it as not available', () => {
      expect(plugin.available).to.equal(false)
      expect(plugin.schema.safeParse(section).success).to.equal(true)
      expect(plugin.schema.safeParse(wrong).success).to.equal(false)
    })

    it(`answers every call with ${code}, and passes none on`, async () => {
      const stage = new StageRig().create(plugin, section)
      const handled = refusal(await send(stage))
      const explained = await explain(stage)
      expect(handled).to.include({ kind: 'failed', code, sent: 'no' })
      expect(handled)
        .to.have.property('message')
        .that.matches(/(is|are) not available yet\.$/)
      expect(explained.outcome).to.deep.equal(handled)
      expect(explained.lines).to.deep.equal(['not available yet: every call is refused'])
    })
  })
}
