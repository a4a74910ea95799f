// The server of each task of a client: the id of a task does not name it.
import { BoundedMap } from '@svc/core/store'

/** Of one client; of more, the one begun first is not found any more. */
const maxTasks = 1_000

export class TaskServers {
  #servers = new BoundedMap<string, string>(maxTasks)

  add(server: string, taskId: unknown): void {
    if (typeof taskId === 'string') this.#servers.set(taskId, server)
  }

  of(taskId: string): string | undefined {
    return this.#servers.get(taskId)
  }
}
