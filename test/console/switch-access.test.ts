import { expect } from 'chai'
import { ask } from '../app/admin/rig.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { ofSuite } from '../support/parts.js'
import { startPayments } from './payments.js'

const admin = `admin:
  port: 0
  tokenRef: env:SVC_ADMIN
  roles: { reviewer: [approver], auditor: [auditor], viewer: [viewer], operator: [ops] }
  console: { edit: true }
`

describe('the switch of a tool', () => {
  const browser = chromiumOfSuite()

  const rig = ofSuite(() => startPayments(browser, admin))
  before(async () => {
    expect((await rig.call('billing/get_invoice', { invoice: 'INV-1' })).status).to.equal(200)
  })

  const row = { hasText: 'billing/get_invoice' }

  it('has a button for an operator, and none for an auditor, who sees the same row', async () => {
    const buttons = async (role: string) => {
      const page = await rig.pageOf(`${role}@example.com`, '/console/policy/access', {}, [role])
      const found = page.locator('tbody tr', row)
      await found.waitFor()
      return found.getByRole('button', { name: 'Turn off…' }).count()
    }
    expect([await buttons('ops'), await buttons('auditor')]).to.deep.equal([1, 0])
  })

  it('is on no page of a viewer or a reviewer, who have no view of the policy', async () => {
    for (const role of ['viewer', 'approver']) {
      const page = await rig.pageOf(`${role}@example.com`, '/console/policy/access', {}, [role])
      await page.getByText('This is for operator and auditor').first().waitFor()
      expect(await page.locator('tbody tr', row).count(), role).to.equal(0)
      expect(await page.getByRole('button', { name: 'Turn off…' }).count(), role).to.equal(0)
      expect(await page.getByRole('link', { name: 'Policy' }).count(), role).to.equal(0)
    }
  })

  it('is turned by an operator, and refused to the others by the API', async () => {
    const { text } = await asRole('ops', '/api/policy/switch?server=billing&tool=get_invoice')
    const body = JSON.stringify({
      server: 'billing',
      tool: 'get_invoice',
      reason: 'a test',
      policy_sha256: JSON.parse(text).policy_sha256,
    })
    for (const role of ['auditor', 'viewer', 'approver', 'nobody']) {
      const { status, json } = await asRole(role, '/api/policy/switch', body)
      expect([status, json['error']], role).to.deep.equal([403, 'TOOL_NOT_ALLOWED'])
    }
    expect((await rig.call('billing/get_invoice', { invoice: 'INV-2' })).status).to.equal(200)
    expect((await asRole('ops', '/api/policy/switch', body)).status).to.equal(200)
    expect((await rig.call('billing/get_invoice', { invoice: 'INV-3' })).status).to.equal(403)
  })

  async function asRole(role: string, path: string, body?: string) {
    const email = `${role}@example.com`
    const token = await rig.issuer.sign({ email, sub: email, org: 'acme', roles: [role] })
    return ask(rig.origin, path, {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body }),
    })
  }
})
