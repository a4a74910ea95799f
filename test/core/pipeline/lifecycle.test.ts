import { denied, type Stage } from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import { rejectionOf } from '../../support/rejection.js'

function placed(name: string, log: string[], more: Partial<Stage> = {}) {
  const stage: Stage = {
    handle: async () => denied('INTERNAL', 'not run in this test'),
    async start() {
      log.push(`start ${name}`)
    },
    async stop() {
      log.push(`stop ${name}`)
    },
    ...more,
  }
  return { name, stage }
}

const nowhere = async () => denied('INTERNAL', 'not run in this test')

describe('the life cycle of a pipeline', () => {
  it('starts from the innermost stage outward and stops in reverse', async () => {
    const log: string[] = []
    const pipeline = new Pipeline([placed('outer', log), placed('inner', log)], nowhere)
    await pipeline.start()
    await pipeline.stop()
    expect(log).to.deep.equal(['start inner', 'start outer', 'stop outer', 'stop inner'])
  })

  it('stops the started stages when one fails to start, and names it', async () => {
    const log: string[] = []
    const broken = placed('broken', log, { start: () => Promise.reject(new Error('no key')) })
    const error = await rejectionOf(
      new Pipeline([placed('outer', log), broken, placed('inner', log)], nowhere).start(),
    )
    expect(error).to.have.property('message', 'stage broken did not start: no key')
    expect(log).to.deep.equal(['start inner', 'stop broken', 'stop inner'])
  })

  it('reports every error when stopping fails too', async () => {
    const log: string[] = []
    const stuck = placed('stuck', log, { stop: () => Promise.reject(new Error('jammed')) })
    const broken = placed('broken', log, { start: () => Promise.reject(new Error('no key')) })
    const error = await rejectionOf(new Pipeline([broken, stuck], nowhere).start())
    expect(error).to.be.instanceOf(AggregateError)
    expect(error).to.have.property(
      'message',
      'stage broken did not start: no key; stage stuck did not stop: jammed',
    )
  })

  it('stops every stage even if one fails', async () => {
    const log: string[] = []
    const stuck = placed('stuck', log, { stop: () => Promise.reject(new Error('jammed')) })
    const pipeline = new Pipeline([stuck, placed('inner', log)], nowhere)
    await pipeline.start()
    const error = await rejectionOf(pipeline.stop())
    expect(error).to.have.property('message', 'stage stuck did not stop: jammed')
    expect(log).to.include('stop inner')
  })

  it('can be stopped without a start, and twice', async () => {
    const log: string[] = []
    const pipeline = new Pipeline([placed('a', log)], nowhere)
    await pipeline.stop()
    await pipeline.start()
    await pipeline.stop()
    await pipeline.stop()
    expect(log).to.deep.equal(['start a', 'stop a'])
  })

  it('collects the reasons why it is not ready', () => {
    const pipeline = new Pipeline(
      [placed('a', [], { health: () => ({ state: 'down', reason: 'warming up' }) }), placed('b', [])],
      nowhere,
    )
    expect(pipeline.problems('down')).to.deep.equal(['a: warming up'])
  })
})
