import { Resources } from '@svc/core'
import { expect } from 'chai'

function opening(log: string[], name: string) {
  return () => {
    log.push(`open ${name}`)
    return {
      value: name,
      close: () => {
        log.push(`close ${name}`)
      },
    }
  }
}

describe('Resources', () => {
  it('opens once per key and closes with the last lease', async () => {
    const log: string[] = []
    const resources = new Resources()
    const first = resources.acquire('k', opening(log, 'a'))
    const second = resources.acquire('k', opening(log, 'b'))
    expect(second.value).to.equal('a')
    await first.release()
    expect(log).to.deep.equal(['open a'])
    await second.release()
    expect(log).to.deep.equal(['open a', 'close a'])
    expect(resources.size).to.equal(0)
  })

  it('counts a lease that is released twice once', async () => {
    const log: string[] = []
    const resources = new Resources()
    const first = resources.acquire('k', opening(log, 'a'))
    resources.acquire('k', opening(log, 'a'))
    await first.release()
    await first.release()
    expect(log).to.deep.equal(['open a'])
  })

  it('keeps different keys apart', () => {
    const resources = new Resources()
    expect(resources.acquire('a', opening([], 'a')).value).to.equal('a')
    expect(resources.acquire('b', opening([], 'b')).value).to.equal('b')
  })
})
