/* The least that answers FastCGI: what GET /v1/sandboxes/{id} is measured against.
 *
 * usage: fcgi_peer SOCKET THREADS    answers everything with one fixed JSON object
 */
#include <fcgiapp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char body[] =
	"{\"id\":\"sbx-aaaaaaaaaaaaaaaaaaaa\",\"state\":\"running\",\"engine\":\"tcg\",\"template\":"
	"\"python\","
	"\"image\":\"c21070d80671f570\",\"started\":\"clone\",\"created_at\":\"2026-01-01T00:00:00.000Z\","
	"\"deadline\":\"2026-01-01T00:05:00.000Z\",\"limits\":{\"memory_mb\":1024,\"cpus\":1.0,\"disk_mb\":"
	"1024},"
	"\"metadata\":{}}";

static void *serve(void *arg)
{
	FCGX_Request r;
	char head[128];
	int len = snprintf(head, sizeof(head),
			   "Status: 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
			   sizeof(body) - 1);

	FCGX_InitRequest(&r, *(int *)arg, 0);
	while (FCGX_Accept_r(&r) == 0) {
		FCGX_PutStr(head, len, r.out);
		FCGX_PutStr(body, sizeof(body) - 1, r.out);
		FCGX_Finish_r(&r);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int fd, threads = argc == 3 ? atoi(argv[2]) : 0;
	pthread_t t;

	if (threads < 1 || FCGX_Init()) {
		fprintf(stderr, "usage: fcgi_peer SOCKET THREADS\n");
		return 2;
	}
	fd = FCGX_OpenSocket(argv[1], 1024);
	if (fd < 0)
		return 1;
	for (int i = 1; i < threads; i++)
		pthread_create(&t, NULL, serve, &fd);
	serve(&fd);
	return 0;
}
