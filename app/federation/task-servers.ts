// The server of each task of a client: the id of a task does not name it.
import { BoundedMap } from '@svc/core/store'
import { MAX_NAME } from '../mcp/kept-names.js'

/** Of one client; of more, the one begun first is not found any more. */
const maxTasks = 1_000
/** The id of a client: a tag, the tool in base64url, the server's id. */
const maxId = 3 * MAX_NAME

export class TaskServers {
  #servers = new BoundedMap<string, string>(maxTasks)

  add(server: string, taskId: unknown): void {
    if (typeof taskId === 'string' && taskId.length <= maxId) this.#servers.set(taskId, server)
  }

  of(taskId: string): string | undefined {
    return this.#servers.get(taskId)
  }
}
