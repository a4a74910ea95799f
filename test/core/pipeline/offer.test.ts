import { Pipeline, type Stage, token } from '@svc/core'
import { expect } from 'chai'

const service = token<string>('test service')
const other = token<string>('another service')

const passing: Stage = { handle: (_call, next) => next() }
const offering = (value: string): Stage => ({
  ...passing,
  offer: <T>(asked: symbol & { readonly type?: T }) => (asked === service ? (value as T) : undefined),
})

const pipeline = (...stages: Stage[]) =>
  new Pipeline(
    stages.map((stage, i) => ({ name: `stage${i}`, stage })),
    () => Promise.reject(new Error('nothing is sent')),
  )

describe('what stages offer', () => {
  it('comes from the outermost stage that has it', () => {
    expect(pipeline(passing, offering('outer'), offering('inner')).offer(service)).to.equal('outer')
  })

  it('is undefined where no stage has it', () => {
    expect(pipeline(passing, offering('outer')).offer(other)).to.equal(undefined)
  })
})
