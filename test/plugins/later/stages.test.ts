import type { Plugin } from '@svc/core'
import { ap2Plugin } from '@svc/plugin-ap2'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { makeContext } from '../../support/context.js'

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
      const stage = plugin.create(plugin.schema.parse(section), makeContext())
      const said: string[] = []
      let passed = 0
      const next = () => {
        passed++
        return Promise.reject(new Error('passed on'))
      }
      const handled = await stage.handle(makeCall(), next)
      const explained = await stage.explain?.(makeCall(), next, (line) => said.push(line))
      expect(handled).to.include({ kind: 'failed', code, sent: 'no' })
      expect(handled)
        .to.have.property('message')
        .that.matches(/(is|are) not available yet\.$/)
      expect(explained).to.deep.equal(handled)
      expect(said).to.deep.equal(['not available yet: every call is refused'])
      expect(passed).to.equal(0)
    })
  })
}
