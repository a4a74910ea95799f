import { expect } from 'chai'
import { recordingTo } from '../../support/gateway.js'
import { adminToken, startAdminRig } from './rig.js'

describe('votes on several escalations', () => {
  it('are told as voted on if a refusal beside them cannot be recorded', async () => {
    const disk = async () => {
      throw new Error('no space left')
    }
    await using broken = await startAdminRig(recordingTo({ append: disk }))
    for (const id of ['E1', 'E2']) broken.service.open(id)
    const vote = async (...asked: string[]) => {
      const body = { vote: 'reject', escalations: asked.map((id) => ({ id })) }
      const { status, json } = await broken.admin('/api/escalations/votes', {
        method: 'POST',
        headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const results = json['results'] as { id: string; refused?: { error: string } }[] | undefined
      return [status, results?.map(({ id, refused }) => [id, refused?.error])]
    }
    const unavailable = 'AUDIT_UNAVAILABLE'
    expect(await vote('E1', 'E9', 'E2', 'E8')).to.deep.equal([
      200,
      [
        ['E1', undefined],
        ['E9', unavailable],
        ['E2', undefined],
        ['E8', unavailable],
      ],
    ])
    expect(await vote('E9')).to.deep.equal([503, undefined])
  })
})
