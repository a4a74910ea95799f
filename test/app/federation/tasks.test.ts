import { expect } from 'chai'
import { startEverything } from '../../support/everything.js'
import { startTestGateway } from '../../support/gateway.js'
import { connect1 } from '../../support/sdk-clients.js'

describe('tasks of several servers at /mcp', function () {
  this.timeout(60_000)

  it('belong to the server that began them', async () => {
    await using everything = await startEverything()
    await using gateway = await startTestGateway({
      targets: { everything: everything.url, again: everything.url },
    })
    await using client = await connect1(`${gateway.url}/mcp`)
    const { tasks } = client.experimental
    const begun: string[] = []
    for (const server of ['everything', 'again']) {
      const params = { name: `${server}__simulate-research-query`, arguments: { topic: server } }
      for await (const message of tasks.callToolStream(params, undefined, { task: { ttl: 60_000 } })) {
        if (message.type !== 'taskCreated') continue
        begun.push(message.task.taskId)
        break
      }
    }
    for (const taskId of begun) expect(await tasks.getTask(taskId)).to.have.property('taskId', taskId)
    const listed = await tasks.listTasks()
    expect(listed.tasks.map(({ taskId }) => taskId)).to.have.members(begun)
    for (const taskId of begun) await tasks.cancelTask(taskId)
    const servers = gateway
      .records()
      .filter(({ mcp_method }) => mcp_method === 'tasks/get')
      .map(({ server }) => server)
    expect(servers).to.include.members(['everything@2.0.0', 'again@2.0.0'])
    const error = await tasks.getTask('unknown').catch((reason: unknown) => reason)
    expect(error).to.have.property('code', -32602)
  })
})
